"""Measures again and again: a display drawn anew on a terminal, lines appended in a pipe."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import click

from orderly.cli.backlog.lines import Cut, Line, lines_of
from orderly.cli.backlog.ls import listing
from orderly.cli.backlog.measuring import require_measured
from orderly.cli.backlog.redacting import redacted
from orderly.cli.backlog.trends import Trends
from orderly.cli.colors import can_draw
from orderly.cli.formats import Answer, Column, Format, written
from orderly.cli.formats.values import moment
from orderly.cli.selection import Names
from orderly.cli.settings import Settings
from orderly.cli.text import printable
from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.look import Observer
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.texts import counted, duration, iso_time

_HOME, _CLEAR, _TO_LINE_END, _TO_END = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
_COLORED = re.compile(r"(\x1b\[[\d;]*m)")
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True, slots=True)
class Watch:
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
    cut: Cut
    form: Format
    every: float
    timeout: float
    rounds: int | None = None
    trend: bool = False
    redact: str | None = None


def follow(settings: Settings, watch: Watch) -> int:
    """Show what is watched until it is interrupted, which is how it ends: exit code 0.

    Raises:
        OrderlyError: the first round failed. Later ones may: the display tells it and goes on.
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


def _looks(settings: Settings, watch: Watch) -> Iterator[Snapshot | OrderlyError]:
    """A snapshot every so often, or why there is none."""
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

    def __init__(self, settings: Settings, watch: Watch) -> None:
        self._watch = watch
        self._color = settings.use_color()
        self._trends = Trends()

    def show(self, looks: Iterator[Snapshot | OrderlyError]) -> None:
        form = self._watch.form
        for look in looks:
            if isinstance(look, OrderlyError):
                click.echo(f"error: {printable(str(look))}", err=True)
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

    def __init__(self, settings: Settings, watch: Watch) -> None:
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
    snapshot: Snapshot, lines: Sequence[Line], watch: Watch, trends: Trends, *, drawn: bool
) -> Answer:
    answer = listing(snapshot, lines, watch.cut)
    if not watch.trend:
        return answer
    drawn = drawn and (sys.stdout.encoding or "").lower().startswith("utf")
    rows = [
        (*row, trends.text(line, drawn=drawn)) for row, line in zip(answer.rows, lines, strict=True)
    ]
    return replace(answer, columns=(*answer.columns, Column("trend")), rows=rows)


def _timed(answer: Answer, at: str) -> Answer:
    """With the time as the first column."""
    rows = [(at, *row) for row in answer.rows]
    return replace(answer, columns=(Column("time"), *answer.columns), rows=rows)
