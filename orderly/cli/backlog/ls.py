"""`orderly backlog ls`: the backlog of groups, topics or queues, once or again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import click

from orderly.cli.backlog.columns import fields_of
from orderly.cli.backlog.lines import ORDERS, Cut, Level, Line, lines_of, narrowed
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.backlog.redacting import redact_option, redacted
from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.formats import Answer, Format, format_options, show
from orderly.cli.gathering import gathered
from orderly.cli.selection import Names, selection_options
from orderly.cli.settings import common_options, settings_of
from orderly.monitoring.backlog.judging import judge
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.backlog.states import QueueState, Verdict
from orderly.monitoring.backlog.thresholds import Thresholds
from orderly.monitoring.backlog_json import Detail, document

F = TypeVar("F", bound=Callable[..., Any])


_CUT = (
    click.option(
        "--by",
        type=click.Choice([str(level) for level in Level]),
        help="What a line is. Default: topic; json and yaml tell all, down to queues.",
    ),
    click.option("--only-bad", is_flag=True, help="Only those that are not in order."),
    click.option(
        "--sort-by",
        type=click.Choice(list(ORDERS)),
        help="Worst first. Default: by name; with --top by backlog.",
    ),
    click.option("--top", type=click.IntRange(1), metavar="N", help="Only the first N lines."),
    click.option(
        "--all",
        is_flag=True,
        help="Also %RETRY% topics with nothing to tell.",
    ),
)


def cut_options(command: F) -> F:
    """Add --by, --only-bad, --sort-by, --top and --all as the argument `cut`."""
    return gathered(command, _CUT, ("by", "only_bad", "sort_by", "top", "all"), _cut, "cut")


def _cut(by: str | None, only_bad: bool, sort_by: str | None, top: int | None, retry: bool) -> Cut:
    return Cut(Level(by) if by else None, only_bad, sort_by or "", top, retry)


EXAMPLES = """\b
Examples:
  orderly backlog                                  # all groups
  orderly backlog -g 'ship*' --by queue -o wide    # queue by queue, with offsets and owners
  orderly backlog --only-bad --sort-by age --top 10
"""


@click.command(cls=Command, epilog=EXAMPLES)
@selection_options
@cut_options
@click.option(
    "--watch",
    type=Duration(0.1),
    is_flag=False,
    flag_value="2s",
    metavar="[DURATION]",
    help="Again and again, every 2 s or as given: --watch=10s.",
)
@redact_option
@pace_options
@format_options()
@common_options
@click.pass_context
def ls(
    ctx: click.Context,
    *,
    names: Names,
    cut: Cut,
    watch: float | None,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """List how far behind groups are.

    A line is a group's topic: its worst queue's state, the backlog in messages, the AGE of the
    oldest, the time until it is worked off (ETA; it needs --samples 3), parked messages. DEAD
    letters and MEMBERS are of the group. `-` means not known, which is never 0.
    """
    settings, cut = settings_of(ctx), cut.fit(told_by_line=form.for_rows)
    if watch is not None:
        from orderly.cli.backlog.watching import Watch, follow  # noqa: PLC0415  only here

        return follow(settings, Watch(names, cut, form, watch, pace.timeout, redact=redact_keys))
    snapshot = redacted(measure(settings, names, pace), redact_keys)
    lines = lines_of(snapshot, cut)
    show(listing(snapshot, lines, cut), form, settings)
    if not lines:
        click.echo(nothing(snapshot, cut, names), err=True)
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)


def listing(snapshot: Snapshot, lines: Sequence[Line], cut: Cut) -> Answer:
    """The lines in all formats."""
    assert cut.level is not None
    fields = fields_of(cut.level)
    told = narrowed(snapshot, lines)
    detail = Detail.BAD_QUEUES if cut.only_bad and cut.level is Level.TOPIC else Detail(cut.level)
    return Answer(
        [field.column for field in fields],
        [[field.of(line) for field in fields] for line in lines],
        partial(document, told, detail),
        partial(metrics, told, detail),
        partial(_verdict_line, told),
    )


def metrics(snapshot: Snapshot, detail: Detail = Detail.BAD_QUEUES) -> str:
    """Prometheus' text."""
    from orderly.monitoring.exporting.render import metrics_of  # noqa: PLC0415  only here

    return metrics_of(snapshot, detail).text


def _verdict_line(snapshot: Snapshot) -> str:
    from orderly.cli.backlog.verdict_line import verdict_line  # noqa: PLC0415  only here

    groups = list(snapshot.groups.values())
    return verdict_line(judge(groups, Thresholds.parse({}, {})), groups)


def unread(snapshot: Snapshot) -> bool:
    """Whether something could not be read."""
    if any(broker.error for broker in snapshot.brokers.values()):
        return True
    return any(QueueState.UNKNOWN in group.sums.states for group in snapshot.groups.values())


def nothing(snapshot: Snapshot, cut: Cut, names: Names) -> str:
    """Why there is no line."""
    if cut.only_bad and snapshot.groups:
        count = len(snapshot.groups)
        return "the group is in order" if count == 1 else f"all {count} groups are in order"
    if names.groups or names.topics:
        return f"no group fits {', '.join((*names.groups, *names.topics))}"
    return (
        "no group has committed an offset: start a consumer, or give --group and --topic to see"
        " a topic's queues"
    )
