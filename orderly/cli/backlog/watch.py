"""`orderly backlog watch`: the backlog as it changes.

A terminal's display is redrawn; in a pipe lines are appended.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import final

import click

from orderly.cli.backlog.listing import Line, ListingOptions, cut_options, lines_of, listing
from orderly.cli.backlog.measuring import require_measured
from orderly.cli.command import OrderlyCommand
from orderly.cli.options import Duration
from orderly.cli.output import OF_BACKLOGS, CommandOutput, Format, format_options, moment, written
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, groups_options
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import can_draw, printable, say
from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import Observer
from orderly.monitoring.texts import Column, counted, duration, iso_time

_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 20
_LOOK_BACK = 5  # rounds an arrow compares with
Points = Sequence[int | None]


@final
class Trends:
    """What was seen of each line. A line that was not there in the last round is forgotten."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str, str], deque[int | None]] = {}

    def take(self, lines: Sequence[Line]) -> None:
        """Note one round."""
        before, self._points = self._points, {}
        for line in lines:
            points = before.get(_name(line)) or deque[int | None](maxlen=_POINTS)
            points.append(line.figures.backlog)
            self._points[_name(line)] = points

    def text(self, line: Line, *, drawn: bool) -> str:
        """The trend of a line of the last round.

        Args:
            line: it.
            drawn: with characters that not every terminal has.
        """
        points = self._points[_name(line)]
        if not drawn:
            return arrow(points)
        return f"{arrow(points, ('▲', '▼', '=')) or ' '} {sparkline(points)}"


def _name(line: Line) -> tuple[str, str, str]:
    return (
        line.group.group,
        line.topic.topic if line.topic else "",
        str(line.row and line.row.queue),
    )


def sparkline(points: Points) -> str:
    """A bar a point, from 0 to the largest; a gap where it was not known."""
    top = max((point for point in points if point is not None), default=0) or 1
    return "".join(
        " " if point is None else _BARS[(point * (len(_BARS) - 1) + top - 1) // top]
        for point in points
    )


def arrow(points: Points, marks: Sequence[str] = ("up", "down", "same")) -> str:
    """More, less or the same as some rounds ago; "" if that is not known."""
    recent = [point for point in list(points)[-_LOOK_BACK:] if point is not None]
    if len(recent) < 2:
        return ""
    more, less, same = marks
    first, last = recent[0], recent[-1]
    return more if last > first else less if last < first else same


# --- measuring again and again --------------------------------------------------------------------


_HOME, _CLEAR, _TO_LINE_END, _TO_END = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
_COLORED = re.compile(r"(\x1b\[[\d;]*m)")
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What is watched, and how.

    Attributes:
        names, cut, form: of the listing.
        every: seconds between two rounds.
        timeout: seconds one round may take.
        rounds: how many; None: until it is interrupted.
        trend: whether with a column of trends.
        redact: of --redact-keys.
    """

    names: Names
    cut: ListingOptions
    form: Format
    every: float
    timeout: float
    rounds: int | None = None
    trend: bool = False
    redact: str | None = None


def follow(settings: CommonOptions, watch: WatchOptions) -> int:
    """Show what is watched until it is interrupted, which is how it ends: exit code 0.

    Raises:
        OrderlyError: the first round failed. Later ones may: the display shows it and goes on.
    """
    drawn = watch.form.for_reader and sys.stdout.isatty() and can_draw(os.environ)
    display = _Screen(settings, watch) if drawn else _Log(settings, watch)
    try:
        display.show(_looks(settings, watch))
    except KeyboardInterrupt:
        pass
    finally:
        display.close()
    return 0


def _looks(settings: CommonOptions, watch: WatchOptions) -> Iterator[Snapshot | OrderlyError]:
    """A snapshot at each interval, or the reason why it is missing."""
    selection = watch.names.selection(settings)
    with settings.client(watch.timeout) as client:
        observer, backlog = _observer(client, selection, watch.timeout), Backlog()
        last: Snapshot | None = None
        for number in count() if watch.rounds is None else range(watch.rounds):
            began = time.monotonic()
            try:
                last = backlog.take(observer.look(last))
                if number == 0:
                    require_measured(last, selection)
                yield redacted(last, watch.redact)
            except OrderlyError as error:
                if last is None or number == 0:
                    raise
                yield error
            if watch.rounds is None or number + 1 < watch.rounds:
                time.sleep(max(0.0, began + watch.every - time.monotonic()))


def _observer(client: Client, selection: Selection, timeout: float) -> Observer:
    collector = Collector(client, selection, ScanSettings(deadline=timeout))
    details = Details(collector.pipeline, Budgets(), asked=selection.named_groups)
    return Observer(collector, details)


class _Log:
    """Appends the lines of each round, with their time."""

    def __init__(self, settings: CommonOptions, watch: WatchOptions) -> None:
        self._watch = watch
        self._color = settings.use_color()
        self._trends = Trends()

    def show(self, looks: Iterator[Snapshot | OrderlyError]) -> None:
        form = self._watch.form
        for look in looks:
            if isinstance(look, OrderlyError):
                say(f"error: {look}")
                continue
            lines = lines_of(look, self._watch.cut)
            self._trends.take(lines)
            answer = _answer(look, lines, self._watch, self._trends, drawn=False)
            if form.for_rows:
                answer = _timed(answer, iso_time(look.at))
            if text := written(answer, form, color=self._color):
                click.echo(text, color=self._color)
                sys.stdout.flush()
            form = replace(form, headers=False)

    def close(self) -> None:
        """Nothing to restore."""


class _Screen:
    """Draws each round over the one before, within the terminal's size."""

    def __init__(self, settings: CommonOptions, watch: WatchOptions) -> None:
        self._watch = watch
        self._color = settings.use_color()
        self._trends = Trends()
        self._last: Snapshot | None = None
        sys.stdout.write(_HIDE_CURSOR + _CLEAR)

    def show(self, looks: Iterator[Snapshot | OrderlyError]) -> None:
        for look in looks:
            error = str(look) if isinstance(look, OrderlyError) else ""
            if not isinstance(look, OrderlyError):
                self._last = look
                self._trends.take(lines_of(look, self._watch.cut))
            assert self._last is not None  # the first round did not fail
            self._draw(self._last, error)

    def _draw(self, snapshot: Snapshot, error: str) -> None:
        width, height = shutil.get_terminal_size()
        lines = lines_of(snapshot, self._watch.cut)
        answer = _answer(snapshot, lines, self._watch, self._trends, drawn=True)
        text = written(answer, self._watch.form, color=self._color).splitlines()
        shown = [
            self._heading(snapshot, len(lines)),
            *([f"error: {printable(error)}"] if error else []),
            "",
            *text,
        ]
        if len(shown) > height - 1:
            shown = [*shown[: height - 2], f"… {len(shown) - height + 2} more; --top, --only-bad"]
        body = "".join(f"{cut_to(line, width)}{_TO_LINE_END}\n" for line in shown)
        sys.stdout.write(_HOME + body + _TO_END)
        sys.stdout.flush()

    def _heading(self, snapshot: Snapshot, count_: int) -> str:
        lines = counted(count_, str(self._watch.cut.level))
        what = f"{lines} of {counted(len(snapshot.groups), 'group')}"
        return (
            f"{snapshot.cluster or 'orderly backlog'}  {moment(snapshot.at)}  {what},"
            f" every {duration(self._watch.every)}; Ctrl-C ends"
        )

    def close(self) -> None:
        sys.stdout.write(_SHOW_CURSOR)
        sys.stdout.flush()


def cut_to(line: str, width: int) -> str:
    """`line` on one row of a terminal; colour sequences take no room, and end as they began."""
    if len(click.unstyle(line)) <= width:
        return line
    kept, room = list[str](), width - 1
    for part in _COLORED.split(line):
        kept.append(part if _COLORED.fullmatch(part) else part[:room])
        room -= 0 if _COLORED.fullmatch(part) else len(kept[-1])
    return "".join(kept) + "…"


def _answer(
    snapshot: Snapshot, lines: Sequence[Line], watch: WatchOptions, trends: Trends, *, drawn: bool
) -> CommandOutput:
    answer = listing(snapshot, lines, watch.cut)
    if not watch.trend:
        return answer
    drawn = drawn and (sys.stdout.encoding or "").lower().startswith("utf")
    rows = [
        (*row, trends.text(line, drawn=drawn)) for row, line in zip(answer.rows, lines, strict=True)
    ]
    return replace(answer, columns=(*answer.columns, Column("trend")), rows=rows)


def _timed(answer: CommandOutput, at: str) -> CommandOutput:
    """With the time as the first column."""
    rows = [(at, *row) for row in answer.rows]
    return replace(answer, columns=(Column("time"), *answer.columns), rows=rows)


# --- the command ----------------------------------------------------------------------------------


EXAMPLES = """\b
Examples:
  orderly backlog watch shipping --by queue
  orderly backlog watch --only-bad --interval 10s
  orderly backlog watch shipping -o csv --samples 60 > backlog.csv
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@groups_options()
@cut_options
@click.option(
    "--interval",
    type=Duration(0.1),
    default="2s",
    show_default=True,
    help="Time between two rounds.",
)
@click.option("--samples", type=click.IntRange(1), metavar="N", help="End after N rounds.")
@click.option(
    "--timeout",
    type=Duration(0.1),
    default="10s",
    show_default=True,
    help="Time limit of one round.",
)
@redact_option
@format_options(*OF_BACKLOGS)
@common_options
@click.pass_context
def watch(
    ctx: click.Context,
    *,
    names: Names,
    cut: ListingOptions,
    interval: float,
    samples: int | None,
    timeout: float,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Show the backlog of all groups, or only GROUP..., again and again until Ctrl-C.

    On a terminal the table is redrawn each round; TREND shows the last 20 rounds. In a pipe each
    round appends lines with their time. If a round fails, the command reports it and goes on.
    """
    cut = cut.fit(by_line=form.for_rows)
    watched = WatchOptions(
        names, cut, form, interval, timeout, samples, trend=True, redact=redact_keys
    )
    return follow(settings_of(ctx), watched)
