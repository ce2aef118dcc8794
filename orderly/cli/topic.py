"""`orderly topic create|list|route|show`; `grow` is in `topic_growth`."""

from __future__ import annotations

from typing import Any

import click

from orderly.cli.command import Group
from orderly.cli.output import Table, print_json, print_table
from orderly.cli.selection import name_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.topic_growth import grow
from orderly.errors import RouteError
from orderly.model import Permission, TopicRoute
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from orderly.protocol.message_types import MessageType
from orderly.protocol.topic_config import TopicConfig
from orderly.selectors.layout import layout_of

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
_TYPES = [kind for kind in MessageType if kind is not MessageType.UNSPECIFIED]
_ORDERED = {None, MessageType.NORMAL, MessageType.FIFO, MessageType.MIXED}
SHOW_SCHEMA = "orderly.topic/v1"
CREATE = """\b
Examples:
  orderly topic create orders --queues 16
  orderly topic create orders --type fifo
"""
LIST = """\b
Examples:
  orderly topic list
  orderly topic list --all -o json
"""
ROUTE = """\b
Examples:
  orderly topic route orders
"""
SHOW = """\b
Examples:
  orderly topic show orders
  orderly topic show orders -o json
"""


@click.group(cls=Group)
def topic() -> None:
    """Create topics, list them, show them, give them more queues."""


topic.add_command(grow)


@topic.command("create", epilog=CREATE)
@click.argument("name")
@click.option(
    "--queues",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    metavar="N",
    help="How many, on each broker.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice([kind.lower() for kind in _TYPES]),
    help="Declare the messages' type, which proxies hold gRPC producers to; fifo: ordered ones."
    " Default: not declared, which is normal.",
)
@common_options
@click.pass_context
def create(ctx: click.Context, name: str, queues: int, kind: str | None) -> None:
    """Create topic NAME. Its queues are the most that can be consumed side by side.

    1 queue: global order. More: order per sharding key. Choose well: with another number keys
    would move to other queues, so that the topic must be drained first (`orderly topic grow`). A
    topic that exists with this number, and type if one is given, is left alone; another one is an
    error.
    """
    settings = settings_of(ctx)
    name = settings.topic(name)
    wanted = None if kind is None else MessageType[kind.upper()]
    with settings.client() as client:
        created = client.admin.create_topic(
            name, queues, order=wanted in _ORDERED, message_type=wanted
        )
    number = f"{queues} {'queue' if queues == 1 else 'queues'}"
    if created:
        click.echo(f"created {name} with {number} on each broker")
    else:
        click.echo(f"{name} exists already with {number}")


@topic.command("list", epilog=LIST)
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


@topic.command("route", epilog=ROUTE)
@name_argument
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


@topic.command("show", epilog=SHOW)
@name_argument
@output_option
@common_options
@click.pass_context
def show(ctx: click.Context, name: str, output: str) -> None:
    """Show the settings of topic NAME as its brokers have them: queues, permission, type.

    The last line is its layout, to be given to all producers as their pin.
    """
    settings = settings_of(ctx)
    name = settings.topic(name)
    with settings.client() as client:
        found = client.routes.get(name)
        configs = {
            broker.broker_name: client.admin.topic_config(name, broker)
            for broker in sorted(found.brokers, key=lambda broker: broker.broker_name)
        }
    rows = [config_row(broker, config) for broker, config in configs.items()]
    layout = _layout_text(found)
    if output == "json":
        print_json({"schema": SHOW_SCHEMA, "topic": name, "layout": layout, "brokers": rows})
        return
    headings = ("broker", "type", "read queues", "write queues", "permission", "order")
    cells = [tuple(row[heading.replace(" ", "_")] for heading in headings) for row in rows]
    print_table(Table(headings, cells, title=name))
    click.echo(f"layout: {layout or '-'}", err=True)


def config_row(broker: str, config: TopicConfig | None) -> dict[str, Any]:
    """A topic's settings on one broker; all None if it has no such topic."""
    if config is None:
        names = ("type", "read_queues", "write_queues", "permission", "order", "attributes")
        return {"broker": broker, **dict.fromkeys(names)}
    return {
        "broker": broker,
        "type": config.message_type,
        "read_queues": config.read_queues,
        "write_queues": config.write_queues,
        "permission": permission_text(Permission(config.perm)),
        "order": "yes" if config.order else "no",
        "attributes": dict(config.attributes),
    }


def _layout_text(found: TopicRoute) -> str | None:
    try:
        return str(layout_of(found))
    except RouteError:
        return None


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
