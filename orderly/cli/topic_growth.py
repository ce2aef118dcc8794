"""`orderly topic grow`: more queues, once nothing is left in the old ones.

The steps and the way back are in `monitoring.topic_growth`; here are options, texts, exit codes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.asking import confirmed
from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.output import Table, print_json, print_table
from orderly.cli.selection import complete_group, name_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import printable
from orderly.monitoring.texts import iso_time

if TYPE_CHECKING:
    from orderly.monitoring.topic_growth import Standing, TopicGrowth

SCHEMA = "orderly.topic-grow/v1"
EXAMPLES = """\b
Examples:
  orderly topic grow orders --queues 16 --dry-run
  orderly topic grow orders --queues 16 --timeout 30m --yes
"""


@click.command(
    "grow",
    cls=Command,
    short_help="Give a topic more queues, in order: drained first.",
    epilog=EXAMPLES,
)
@name_argument
@click.option(
    "--queues",
    type=click.IntRange(1, 1024),
    required=True,
    metavar="N",
    help="How many, on each broker.",
)
@click.option(
    "--timeout",
    type=Duration(),
    default="10m",
    show_default=True,
    help="Until the topic must be drained.",
)
@click.option(
    "--quiet",
    type=Duration(),
    default="35s",
    show_default=True,
    help="How long nothing new may have come; longer than producers keep an old route (30 s).",
)
@click.option(
    "--watch",
    type=Duration(),
    default="5s",
    show_default=True,
    help="How long to look whether it is written to, before anything is changed.",
)
@click.option(
    "--ignore-group",
    multiple=True,
    metavar="GROUP",
    shell_complete=complete_group,
    help="A group that is not waited for, gone for good, say; may be given again.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done, and who is behind.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@common_options
@click.pass_context
def grow(
    ctx: click.Context,
    /,
    *,
    name: str,
    queues: int,
    ignore_group: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    output: str,
    **seconds: float,
) -> int:
    """Give topic NAME more queues, so that no message overtakes another of its key.

    More queues move keys. So stop the producers first, or give them the new layout as their pin:
    they fail until it holds. Then this closes the topic for writing, waits until every group has
    finished everything and no key is parked, adds the queues on all brokers, and opens it again. On
    failure, a time-out or Ctrl-C all is put back as it was.
    """
    settings = settings_of(ctx)
    topic = settings.topic(name)
    ignored = [settings.group(group) for group in ignore_group]
    if output == "json" and not (yes or dry_run):
        raise click.UsageError("with --output json give --yes or --dry-run", ctx)
    from orderly.monitoring.topic_growth import (  # noqa: PLC0415  `--help` is quick
        Patience,
        TopicGrowth,
    )

    began = time.time()
    with settings.client() as client:
        growth = TopicGrowth(client, topic, queues, ignored)
        seen = _Seen(growth.standing(), growth.producers())
        if output == "table":
            _print_plan(growth, seen)
        if growth.plan.needed and not dry_run:
            question = f"Are the producers of {topic} stopped, or pinned? Go on?"
            if not (yes or confirmed(ctx, question, "--yes (or --dry-run)")):
                _say("nothing was changed")
                return NOT_MEASURED
            growth.run(Patience(**seconds), _Teller())
    if output == "json":
        print_json(_document(growth, seen, began, dry_run=dry_run))
    elif growth.plan.needed and not dry_run:
        _say(f"{topic} has {queues} queues on each broker; pin its producers to the new layout:")
        click.echo(f"layout={growth.plan.pin}")
    return 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there was before anything was changed."""

    standing: Standing
    producers: dict[str, int] | None


class _Teller:
    """Says on stderr how far it is; the same text once."""

    def __init__(self) -> None:
        self._told = ""

    def __call__(self, text: str) -> None:
        if text != self._told:
            self._told = text
            _say(text)


def _say(text: str) -> None:
    click.echo(printable(text), err=True)


def _print_plan(growth: TopicGrowth, seen: _Seen) -> None:
    plan = growth.plan
    if not plan.needed:
        _say(f"{plan.topic} has {plan.queues} queues on each broker: nothing to do")
        return
    rows = [tuple(row.values()) for row in _brokers(growth)]
    headings = ("broker", "read queues", "write queues", "open", "after")
    print_table(Table(headings, [(*row[:3], "yes" if row[3] else "no", row[4]) for row in rows]))
    for behind in seen.standing.behind:
        _say(f"not finished: {behind}")
    _say(f"producers connected, of this or other topics: {_listed(seen.producers)}")


def _listed(producers: dict[str, int] | None) -> str:
    if producers is None:
        return "not known"
    return ", ".join(f"{group} ({count})" for group, count in producers.items()) or "none"


def _brokers(growth: TopicGrowth) -> list[dict[str, Any]]:
    plan = growth.plan
    return [
        {
            "broker": broker,
            "read_queues": config.read_queues,
            "write_queues": config.write_queues,
            "writable": config.perm == plan.grown[broker].perm,
            "after": plan.queues,
        }
        for broker, config in sorted(plan.present.items())
    ]


def _document(growth: TopicGrowth, seen: _Seen, began: float, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "time": iso_time(began),
        "topic": growth.plan.topic,
        "queues": growth.plan.queues,
        "dry_run": dry_run,
        "changed": growth.plan.needed and not dry_run,
        "layout": str(growth.plan.pin),
        "brokers": _brokers(growth),
        "producers": seen.producers,
        "behind": [
            {"group": each.group, "messages": each.messages, "why": each.why or None}
            for each in seen.standing.behind
        ],
    }
