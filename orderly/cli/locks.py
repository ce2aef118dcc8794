"""`orderly locks`: who holds which queue of a group, as the members report it."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.options import answers_option
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.selection import group_argument
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import printable, say, say_unread, tell
from orderly.errors import ConfigError, OrderlyError
from orderly.monitoring.backlog.reading import Scan
from orderly.monitoring.locks import LEFT, JudgedLock, LockReport, lock_report
from orderly.monitoring.texts import Column, ColumnKind, iso_time

SCHEMA = "orderly.locks/v1"
_COLUMNS = (
    Column("topic"),
    Column("broker"),
    Column("queue", ColumnKind.NUMBER),
    Column("owner"),
    Column("locked"),
    Column("lock age", ColumnKind.SECONDS),
    Column("claimants", ColumnKind.COUNT),
    Column("failed unlocks", ColumnKind.COUNT),
    Column("verdict", ColumnKind.STATE),
    Column("why"),
)
_YES_NO = {True: "yes", False: "no", None: None}
_EVERYBODY = 1_000_000  # members to ask; there is but one group
EXAMPLES = """\b
Examples:
  orderly locks shipping
  orderly locks shipping -o json
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@group_argument
@answers_option
@format_options()
@common_options
@click.pass_context
def locks(ctx: click.Context, *, group: str, timeout: float, form: Format) -> int:
    """Show which member holds which queue of GROUP, as the members report it.

    A broker does not show its locks, and asking for a lock would take it. So the command asks each
    member. It learns nothing from members that are dead, hang, or connect through gRPC.

    LOCK AGE is the time since a lock was renewed. Members renew every 20 s as a rule, and a lock
    lasts 60 s. If no member claims a queue, its last owner left or died: the lock ends within 60 s,
    or later if the owner closed while a handler still runs. Look again after a minute to see which.
    """
    settings = settings_of(ctx)
    report = _ask(settings, settings.group(group), timeout)
    show(_answer(report), form, settings)
    for line in _notes(report):
        (tell if form.for_reader else say)(line)
    say_unread(report.errors)
    return int(report.verdict)


def _ask(settings: CommonOptions, group: str, timeout: float) -> LockReport:
    from orderly.monitoring.collecting.budgets import Budgets  # noqa: PLC0415  `--help` is quick
    from orderly.monitoring.collecting.details import Details  # noqa: PLC0415
    from orderly.monitoring.collecting.scan import Collector, ScanSettings  # noqa: PLC0415
    from orderly.monitoring.collecting.selection import Selection  # noqa: PLC0415
    from orderly.monitoring.collecting.survey import Observer  # noqa: PLC0415

    budgets = Budgets(members=_EVERYBODY, delays=0, heads=0, records=0)
    with settings.client(timeout) as client:
        collector = Collector(client, Selection((group,)), ScanSettings(deadline=timeout))
        observer = Observer(collector, Details(collector.pipeline, budgets))
        scan = observer.look(None)
        if observer.overlooked(scan):
            scan = observer.look(None)
    report = lock_report(scan, group)
    _require(scan, report)
    return report


def _require(scan: Scan, report: LockReport) -> None:
    if report.group in scan.groups:
        return
    for error in report.errors.values():
        raise OrderlyError(f"nothing could be measured: {error}")
    raise ConfigError(
        f"there is no group {report.group}: check the name (`orderly backlog` shows all groups), or"
        " start its consumer"
    )


def _answer(report: LockReport) -> CommandOutput:
    rows = [
        (
            it.lock.queue.topic,
            it.lock.queue.broker_name,
            it.lock.queue.queue_id,
            it.lock.owner,
            _YES_NO[it.lock.locked],
            it.lock.lock_age,
            len(it.lock.claimants),
            it.lock.failed_unlocks,
            it.verdict.name,
            it.why,
        )
        for it in report.locks
    ]
    return CommandOutput(_COLUMNS, rows, partial(_document, report))


def _document(report: LockReport) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "time": iso_time(report.at),
        "group": report.group,
        "verdict": report.verdict.name,
        "takes_locks": report.takes_locks,
        "members": None if report.members is None else list(report.members),
        "idle_members": list(report.idle),
        "silent_members": list(report.silent),
        "queues": [_fields(it) for it in report.locks],
        "errors": dict(report.errors),
    }


def _fields(judged: JudgedLock) -> dict[str, Any]:
    lock = judged.lock
    return {
        "topic": lock.queue.topic,
        "broker": lock.queue.broker_name,
        "queue": lock.queue.queue_id,
        "owner": lock.owner,
        "locked": lock.locked,
        "lock_age_seconds": lock.lock_age,
        "claimants": list(lock.claimants),
        "failed_unlocks": lock.failed_unlocks,
        "dropped": lock.dropped,
        "verdict": judged.verdict.name,
        "why": judged.why or None,
        "free_within_seconds": judged.free_within,
    }


def _notes(report: LockReport) -> list[str]:
    """What is to be said of members, for a reader."""
    notes = []
    if not report.locks and not report.errors:
        notes.append(
            f"no queue of {report.group} is known: it never committed, and no member has one"
        )
    if report.takes_locks is False:
        notes.append(f"{report.group} does not consume in order, so it takes no locks")
    if report.members is None:
        notes.append("members: not known")
    else:
        notes.append(f"members: {len(report.members)} online")
    if report.members == () and report.locks and report.takes_locks is not False:
        notes.append(f"nobody is online; {LEFT}")
    if report.idle:
        notes.append(f"without a queue: {_names(report.idle)}")
    if report.silent:
        notes.append(f"UNKNOWN, did not answer: {_names(report.silent)}")
    return notes


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(printable, names))
