"""`orderly topic create|list|route`."""

from __future__ import annotations

from typing import Any

import click

from orderly.cli.output import Table, print_json, print_table
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.config import check_topic
from orderly.model import Permission, TopicRoute


@click.group()
def topic() -> None:
    """Create topics, list them, show where their queues live."""


@topic.command("create")
@click.argument("name")
@click.option(
    "--queues", type=click.IntRange(1, 1024), default=8, show_default=True, help="On each broker."
)
@common_options
@click.pass_context
def create(ctx: click.Context, name: str, queues: int) -> None:
    """Create topic NAME. Its queues are the most that can be consumed side by side.

    1 queue: global order. More: order per sharding key. Choose well: with another number of
    queues later, keys move to other queues.
    """
    check_topic(name)
    with settings_of(ctx).client() as client:
        client.admin.create_topic(name, queues)
    click.echo(f"created {name} with {queues} queues on each broker")


@topic.command("list")
@output_option
@common_options
@click.pass_context
def list_topics(ctx: click.Context, output: str) -> None:
    """List all topics the name server knows, system topics included."""
    with settings_of(ctx).client() as client:
        names = sorted(client.admin.topics())
    if output == "json":
        print_json(names)
    else:
        print_table(Table(("topic",), [(name,) for name in names]))


@topic.command("route")
@click.argument("name")
@output_option
@common_options
@click.pass_context
def route(ctx: click.Context, name: str, output: str) -> None:
    """Show which brokers hold the queues of topic NAME."""
    check_topic(name)
    with settings_of(ctx).client() as client:
        found = client.routes.get(name)
    rows = route_rows(found)
    if output == "json":
        print_json({"topic": name, "order_conf": found.order_conf, "brokers": rows})
        return
    headings = ("broker", "cluster", "master", "read queues", "write queues", "permission")
    cells = [tuple(row[heading.replace(" ", "_")] for heading in headings) for row in rows]
    print_table(Table(headings, cells, title=name))


def route_rows(found: TopicRoute) -> list[dict[str, Any]]:
    """One row a broker, sorted by name; a master that is down is None."""
    rows = []
    for queues in sorted(found.queues, key=lambda data: data.broker_name):
        broker = found.broker(queues.broker_name)
        rows.append(
            {
                "broker": queues.broker_name,
                "cluster": broker.cluster if broker else None,
                "master": broker.master if broker else None,
                "read_queues": queues.read_queues,
                "write_queues": queues.write_queues,
                "permission": permission_text(queues.permission),
            }
        )
    return rows


def permission_text(permission: Permission) -> str:
    """What may be done with the queues: RW, R-, -W or --."""
    return ("R" if Permission.READ in permission else "-") + (
        "W" if Permission.WRITE in permission else "-"
    )
