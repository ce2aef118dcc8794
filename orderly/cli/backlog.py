"""`orderly backlog ls|check`: how far behind a group is, to read or for a monitoring system.

Measuring is `orderly.monitoring.collect`, judging `monitoring.backlog.verdict`; here are the
options, the texts and the exit codes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.groups import members_online, queue_fields
from orderly.cli.output import Table, print_json, print_table
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import iso_time, printable
from orderly.errors import ConfigError
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.backlog.verdict import (
    Judgement,
    QueueBacklog,
    QueueState,
    Thresholds,
    judge,
    queues_text,
    totals,
)
from orderly.namespace import is_retry_topic

if TYPE_CHECKING:
    from orderly.client import Client

SCHEMA = "orderly.backlog/v1"
HEADINGS = ("group", "topic", "broker", "queue", "min", "committed", "max", "backlog", "state")


class DefaultIsLs(click.Group):
    """`orderly backlog --group G` means `orderly backlog ls --group G`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `ls` first unless a command or a call for help is there."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["ls", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultIsLs)
def backlog() -> None:
    """How far behind a consumer group is, per queue. Without a command: ls.

    Backlog is max - committed: messages stored and not yet consumed. `-` means not known, which
    is never 0: NEW queues were never committed, AHEAD ones are committed beyond the log, LOST
    ones have messages that the broker deleted before the group consumed them.
    """


@backlog.command("ls")
@click.option("--group", "-g", help="Consumer group; default: all groups.")
@click.option("--topic", "-t", help="Only this topic.")
@click.option("--all", "everything", is_flag=True, help="Also %RETRY% topics without a backlog.")
@output_option
@common_options
@click.pass_context
def ls(
    ctx: click.Context, *, group: str | None, topic: str | None, everything: bool, output: str
) -> int:
    """Show the backlog per queue, and the sums.

    Exits 3 if a queue could not be read; what could be read is shown all the same.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    with settings.client() as client:
        measured = time.time()
        groups = [group] if group else settings.own(client.admin.groups())
        rows = _collect_all(client, groups, topic, required=group is not None)
        if not (everything or topic):
            rows = [row for row in rows if not _is_idle_retry(row)] or rows
        groups = sorted({row.group for row in rows})
        online = {name: members_online(client, name) for name in groups}
    if output == "json":
        print_json(_listing(rows, online, measured))
    elif rows:
        _print_listing(rows, online)
    else:
        click.echo(
            "no group has committed an offset: start a consumer, or give --group and --topic to"
            " see a topic's queues",
            err=True,
        )
    return int(Verdict.UNKNOWN if _any_unread(rows) else Verdict.OK)


def _collect_all(
    client: Client, groups: Sequence[str], topic: str | None, *, required: bool
) -> list[QueueBacklog]:
    from orderly.monitoring.collect import collect  # noqa: PLC0415  `--help` needs no sockets

    rows = [row for group in sorted(groups) for row in collect(client, group, topic)]
    if required and not rows:
        raise ConfigError(
            f"group {groups[0]} has no committed offset on any topic: check the name (`orderly"
            " backlog` shows all groups), start its consumer, or give --topic to see what a topic"
            " holds for it"
        )
    return rows


def _is_idle_retry(row: QueueBacklog) -> bool:
    """Whether the row is of a group's own retry topic and has nothing to tell."""
    if not is_retry_topic(row.queue.topic):
        return False
    never_used = row.state is QueueState.NEW and row.maximum == row.minimum
    return never_used or (row.state is QueueState.OK and row.backlog == 0)


def _any_unread(rows: Sequence[QueueBacklog]) -> bool:
    return any(row.state is QueueState.UNKNOWN for row in rows)


def _print_listing(rows: Sequence[QueueBacklog], online: dict[str, list[str] | None]) -> None:
    print_table(Table(HEADINGS, [_cells(row) for row in rows]))
    click.echo()
    sums = []
    for (group, topic), part in groupby(rows, key=lambda row: (row.group, row.queue.topic)):
        total = totals(list(part))
        members = online[group]
        sums.append(
            (
                group,
                topic,
                total.queues,
                total.unknown,
                total.backlog,
                total.lost,
                None if members is None else len(members),
            )
        )
    print_table(
        Table(("group", "topic", "queues", "unknown", "backlog", "lost", "clients online"), sums)
    )


def _cells(row: QueueBacklog) -> tuple[str | int | None, ...]:
    queue = row.queue
    return (
        row.group,
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        row.minimum,
        row.committed,
        row.maximum,
        row.backlog,
        f"LOST {row.lost}" if row.lost else str(row.state),
    )


def _listing(
    rows: Sequence[QueueBacklog], online: dict[str, list[str] | None], measured: float
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "time": iso_time(measured),
        "groups": [
            {"group": group, "clients": online[group]} | _sums_and_queues(list(part))
            for group, part in groupby(rows, key=lambda row: row.group)
        ],
    }


def _sums_and_queues(rows: Sequence[QueueBacklog]) -> dict[str, Any]:
    total = totals(rows)
    return {
        "totals": {
            "queues": total.queues,
            "unknown": total.unknown,
            "backlog": total.backlog,
            "lost": total.lost,
        },
        "queues": [
            {
                **queue_fields(row),
                "backlog": row.backlog,
                "lost": row.lost,
                "state": str(row.state),
            }
            for row in rows
        ],
    }


@backlog.command("check")
@click.option("--group", "-g", required=True, help="Consumer group.")
@click.option("--topic", "-t", help="Only this topic.")
@click.option("--warn", type=int, metavar="N", help="WARNING above N messages in sum.")
@click.option("--crit", type=int, metavar="N", help="CRITICAL above N messages in sum.")
@output_option
@common_options
@click.pass_context
def check(
    ctx: click.Context,
    *,
    group: str,
    topic: str | None,
    warn: int | None,
    crit: int | None,
    output: str,
) -> int:
    """Judge a group's backlog in one line, for cron, Nagios, CI or a probe.

    Exit codes: 0 OK; 1 WARNING; 2 CRITICAL (above --crit, or messages LOST); 3 UNKNOWN: a queue
    was never committed or could not be read, or nothing could be measured. CRITICAL wins over
    UNKNOWN, UNKNOWN over WARNING.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    if warn is None and crit is None:
        raise click.UsageError("give --warn or --crit (or both), in messages", ctx)
    thresholds = Thresholds(warn, crit)
    with settings.client() as client:
        measured = time.time()
        rows = _collect_all(client, [group], topic, required=False)
    judgement = judge(rows, thresholds)
    if output == "json":
        print_json(_judged(group, rows, thresholds, judgement, measured))
    else:
        click.echo(check_line(group, topic, thresholds, judgement))
    return int(judgement.verdict)


def check_line(group: str, topic: str | None, thresholds: Thresholds, judgement: Judgement) -> str:
    """One line as the Monitoring Plugins guidelines want it: verdict, text, performance data."""
    total = judgement.totals
    name = f"{group}/{topic}" if topic else group
    measured = f"backlog {_known(total.backlog)} messages in {queues_text(total.queues)}"
    text = "; ".join(judgement.reasons) or measured
    if judgement.verdict is not Verdict.OK and total.worst and total.worst.backlog:
        text += f" (most: {total.worst.queue} with {total.worst.backlog})"
    return printable(
        f"ORDERLY {judgement.verdict.name} - {name}: {text}"
        f" | 'backlog'={_perf(total.backlog)};{_known(thresholds.warn, '')};"
        f"{_known(thresholds.crit, '')};0 'lost'={total.lost};;0;0 'unknown'={total.unknown};;;0"
    )


def _known(value: int | None, otherwise: str = "-") -> str:
    return otherwise if value is None else str(value)


def _perf(value: int | None) -> str:
    return "U" if value is None else str(value)  # U: "could not be determined" in the guidelines


def _judged(
    group: str,
    rows: Sequence[QueueBacklog],
    thresholds: Thresholds,
    judgement: Judgement,
    measured: float,
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "time": iso_time(measured),
        "group": group,
        "verdict": judgement.verdict.name,
        "exit_code": int(judgement.verdict),
        "reasons": list(judgement.reasons),
        "warn": thresholds.warn,
        "crit": thresholds.crit,
    } | _sums_and_queues(rows)
