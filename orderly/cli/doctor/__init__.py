"""`orderly doctor`: what this installation and its cluster lack, and what to do about it.

A part each: `installation`, `name_servers`, `brokers`, `access`, and a consumer's `start`. Nothing
is joined, pulled or written, and nothing is left at the broker.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from orderly.cli.command import Command
from orderly.cli.doctor.finding import Finding, to_do, to_have, verdict_of
from orderly.cli.doctor.installation import look_at_installation
from orderly.cli.doctor.wanted import Wanted
from orderly.cli.durations import Duration
from orderly.cli.formats import Answer, Column, Format, Kind, format_options, show
from orderly.cli.selection import complete_group, complete_topic
from orderly.cli.settings import common_options, settings_of
from orderly.cli.text import printable
from orderly.monitoring.texts import iso_time

SCHEMA = "orderly.doctor/v2"
_COLUMNS = (
    Column("area"),
    Column("part"),
    Column("state", Kind.STATE),
    Column("found"),
    Column("advice", wide=True),
)
EXAMPLES = """\b
Examples:
  orderly doctor
  orderly doctor -g shipping -t orders
  orderly doctor -g shipping -t orders --order key -o json
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_group,
    help="Also what a consumer of GROUP would meet at its start.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Also TOPIC; may be given again. Default: the topics that GROUP has.",
)
@click.option(
    "--order",
    type=click.Choice(["queue", "key"]),
    help="How that consumer keeps order. Default: as the members that are there.",
)
@click.option(
    "--model",
    type=click.Choice(["clustering", "broadcasting"]),
    help="How its members share the queues. Default: as the members that are there.",
)
@click.option("--tags", metavar="TAGS", help="Its filter, as in `paid || shipped`.")
@click.option("--sql", metavar="CONDITION", help="Its filter by properties: `amount > 100`.")
@click.option(
    "--timeout",
    type=Duration(0.1),
    default="3s",
    show_default=True,
    metavar="DURATION",
    help="For each connection and each answer.",
)
@format_options("table", "json", "csv", "yaml")
@common_options
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    *,
    group: str | None,
    topics: tuple[str, ...],
    model: str | None,
    timeout: float,
    form: Format,
    **consumer: str | None,
) -> int:
    """Look for what is wrong with the installation, the cluster, or a consumer's start.

    Extras; each name server by itself; brokers with release, role and clock; what the access key
    may not do; with --group or --topic all that a consumer's start would refuse or warn of.

    Nothing is joined, pulled or written. ABSENT is no fault: most programs need neither all extras
    nor an administrator's key. Rights to send are not tried: only a message would tell.
    """
    from orderly.cli.doctor.cluster import look_at_cluster  # noqa: PLC0415  `--help` is quick

    settings = settings_of(ctx)
    if consumer["tags"] and consumer["sql"]:
        raise click.UsageError("give --tags or --sql, not both", ctx)
    wanted = Wanted(
        settings.group(group),
        tuple(settings.topic(topic) for topic in topics),
        broadcasting=None if model is None else model == "broadcasting",
        **{name: value or "" for name, value in consumer.items()},
    )
    findings = [*look_at_installation(), *look_at_cluster(settings, wanted, timeout)]
    show(_answer(findings), form, settings)
    if form.for_reader:
        for line in _advice(findings):
            click.echo(line)
    return int(verdict_of(findings))


def _answer(findings: Sequence[Finding]) -> Answer:
    rows = [(it.area, it.part, it.state.value, it.found or None, it.advice) for it in findings]
    return Answer(_COLUMNS, rows, lambda: _document(findings))


def _document(findings: Sequence[Finding]) -> dict[str, Any]:
    verdict = verdict_of(findings)
    return {
        "schema": SCHEMA,
        "time": iso_time(time.time()),
        "verdict": verdict.name,
        "exit_code": int(verdict),
        "findings": [asdict(it) | {"state": it.state.value} for it in findings],
    }


def _advice(findings: Sequence[Finding]) -> list[str]:
    """What to do, one line each, the worst first; then what is absent, for who needs it."""
    due = [f"{it.state.value:<8}  {it.part}: {it.advice}" for it in to_do(findings)]
    absent = [f"{it.part}: {it.advice}" for it in to_have(findings)]
    return [*_section("What to do:", due), *_section("Absent, if you need it:", absent)]


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return ["", heading, *map(printable, lines)] if lines else []
