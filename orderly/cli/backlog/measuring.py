"""Measuring for the commands: how often, how long, and what an unknown name means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.options import Duration, gathered
from orderly.cli.selection import Names
from orderly.cli.settings import CommonOptions
from orderly.errors import ConfigError, OrderlyError, RequestTimeout
from orderly.monitoring.backlog.thresholds import NO_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.evaluate import Backlog
    from orderly.monitoring.backlog.snapshot import Snapshot
    from orderly.monitoring.collecting.selection import Selection

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to measure, how far apart, and how long it may take; seconds."""

    samples: int
    interval: float
    timeout: float


_GRACE = 1.0  # seconds for what is not asking; the plugin's caller has a limit, too
_PACE = (
    click.option(
        "--samples",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="How often to measure. Rates need 3; STALL and GROWING need 3 over two minutes.",
    ),
    click.option(
        "--interval",
        type=Duration(0.1),
        default="5s",
        show_default=True,
        help="Time between two samples.",
    ),
    click.option(
        "--timeout",
        type=Duration(0.1),
        default="10s",
        show_default=True,
        help="Time limit of one sample. What has not answered by then is UNKNOWN.",
    ),
)


def pace_options(command: F) -> F:
    """Add --samples, --interval and --timeout as the argument `pace`."""
    return gathered(command, _PACE, ("samples", "interval", "timeout"), Pace, "pace")


def measure(
    settings: CommonOptions,
    names: Names,
    pace: Pace,
    *,
    thresholds: Thresholds = NO_THRESHOLDS,
    backlog: Backlog | None = None,
) -> Snapshot:
    """Measure what the names say.

    Args:
        settings: of the command line.
        names: the groups and topics.
        pace: how often, and how long it may take.
        thresholds: of the state LAGGING.
        backlog: judges, instead of one with these thresholds.

    Raises:
        OrderlyError: nothing could be measured, or a group or topic that was named is not there.
    """
    from orderly.monitoring.backlog.evaluate import Backlog as Judge  # noqa: PLC0415  `--help` is quick
    from orderly.monitoring.backlog.rules import EvaluationSettings  # noqa: PLC0415
    from orderly.monitoring.collecting.budgets import Budgets  # noqa: PLC0415
    from orderly.monitoring.collecting.scan import ScanSettings  # noqa: PLC0415
    from orderly.monitoring.collecting.survey import survey  # noqa: PLC0415

    selection = names.selection(settings)

    def ask() -> Snapshot:
        with settings.client(pace.timeout) as client:
            return survey(
                client,
                selection,
                settings=ScanSettings(deadline=pace.timeout),
                backlog=backlog or Judge(EvaluationSettings(thresholds=thresholds)),
                budgets=Budgets(),
                samples=pace.samples,
                interval=pace.interval,
            )

    snapshot = _within(pace, ask)
    require_measured(snapshot, selection)
    return snapshot


def require_measured(snapshot: Snapshot, selection: Selection) -> None:
    """See that something was measured, and that what was named is there.

    Raises:
        OrderlyError: no broker answered, or a group or topic that was named is not known.
    """
    errors = [broker.error for broker in snapshot.brokers.values() if broker.error]
    measured = any(group.sums.backlog is not None for group in snapshot.groups.values())
    if errors and len(errors) == len(snapshot.brokers) and not measured:
        raise OrderlyError(f"nothing could be measured: {errors[0]}")
    require_groups(snapshot, selection)
    for name in selection.named_topics:
        if not any(name in group.topics for group in snapshot.groups.values()):
            raise ConfigError(
                f"no such group reads a topic {name}: check the name (`orderly topic list` shows"
                f" all topics){_unread(snapshot)}"
            )


def require_groups(snapshot: Snapshot, selection: Selection) -> None:
    """See that the groups that were named are there.

    Raises:
        ConfigError: one is not known.
    """
    for name in selection.named_groups:
        if name not in snapshot.groups:
            raise ConfigError(
                f"there is no group {name}: check the name (`orderly backlog` shows all groups), or"
                f" start its consumer{_unread(snapshot)}"
            )


def _unread(snapshot: Snapshot) -> str:
    error = next((broker.error for broker in snapshot.brokers.values() if broker.error), None)
    return "" if error is None else f" (but {error})"


def require_group(client: Client, group: str) -> None:
    """See that somebody knows a group: a broker, a member, or an offset of it. Blocks.

    Raises:
        OrderlyError: nobody does, or no broker answered.
    """
    from orderly.monitoring.collecting.selection import Selection  # noqa: PLC0415  `--help` is quick
    from orderly.monitoring.collecting.survey import survey  # noqa: PLC0415

    selection = Selection((group,))
    snapshot = survey(client, selection)
    if group not in snapshot.groups:
        require_measured(snapshot, selection)


def _within(pace: Pace, ask: Callable[[], Snapshot]) -> Snapshot:
    """Give up in time, even if something hangs: a late checker reports nothing."""
    limit = pace.samples * pace.timeout + (pace.samples - 1) * pace.interval + _GRACE
    answers: SimpleQueue[Snapshot | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            answers.put(ask())
        except BaseException as error:  # noqa: BLE001  raised again by who waits
            answers.put(error)

    threading.Thread(target=run, name="orderly-measure", daemon=True).start()
    try:
        answer = answers.get(timeout=min(limit, threading.TIMEOUT_MAX))
    except Empty:
        text = f"not measured within {limit:g} s; --timeout gives it longer"
        raise RequestTimeout(text) from None
    if isinstance(answer, BaseException):
        raise answer
    return answer
