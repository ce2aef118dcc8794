"""`orderly topic create|list|route`."""

from __future__ import annotations

from typing import Any

import click

from orderly.cli.output import Table, print_json, print_table
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.model import Permission, TopicRoute
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX

_SYSTEM_PREFIXES = ("rmq_sys_", "RMQ_SYS_", RETRY_PREFIX, DEAD_PREFIX)
_SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
    }
)


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

    1 queue: global order. More: order per sharding key. Choose well: the number stays, because
    with another one keys would move to other queues. A topic that exists with this number is
    left alone; one with another number is an error.
    """
    settings = settings_of(ctx)
    name = settings.topic(name)
    with settings.client() as client:
        created = client.admin.create_topic(name, queues)
    number = f"{queues} {'queue' if queues == 1 else 'queues'}"
    if created:
        click.echo(f"created {name} with {number} on each broker")
    else:
        click.echo(f"{name} exists already with {number}")


@topic.command("list")
@click.option("--all", "everything", is_flag=True, help="Also RocketMQ's own, %RETRY% and %DLQ%.")
@output_option
@common_options
@click.pass_context
def list_topics(ctx: click.Context, *, everything: bool, output: str) -> None:
    """List the topics of the namespace, or all; without RocketMQ's own and those of groups."""
    settings = settings_of(ctx)
    with settings.client() as client:
        names = sorted(settings.own(client.admin.topics()))
        if not everything:
            info = client.admin.cluster()
            own = {*info.brokers, *info.clusters}  # a topic each, to be found by
            names = [name for name in names if name not in own and not is_system_topic(name)]
    if output == "json":
        print_json(names)
    else:
        print_table(Table(("topic",), [(name,) for name in names]))


def is_system_topic(name: str) -> bool:
    """Whether RocketMQ made the topic for itself or for a group (Java: TopicValidator)."""
    return (
        name in _SYSTEM_TOPICS
        or name.startswith(_SYSTEM_PREFIXES)
        or name.endswith("_REPLY_TOPIC")  # of a cluster, for request and reply
    )


@topic.command("route")
@click.argument("name")
@output_option
@common_options
@click.pass_context
def route(ctx: click.Context, name: str, output: str) -> None:
    """Show which brokers hold the queues of topic NAME."""
    settings = settings_of(ctx)
    name = settings.topic(name)
    with settings.client() as client:
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
