"""`orderly topic create|list|show`; `grow` is in `topic_growth`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.command import Group
from orderly.cli.output import Table, print_json, print_table
from orderly.cli.selection import name_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import printable
from orderly.cli.topic_growth import grow
from orderly.errors import OrderlyError, RouteError
from orderly.model import BrokerData, Permission, TopicRoute
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from orderly.protocol.message_types import MessageType
from orderly.protocol.topic_config import TopicConfig
from orderly.selectors.layout import layout_of

if TYPE_CHECKING:
    from orderly.client import Client

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


@topic.command("show", epilog=SHOW)
@name_argument
@output_option
@common_options
@click.pass_context
def show(ctx: click.Context, name: str, output: str) -> int:
    """Show which brokers hold topic NAME, and its settings as they have them: queues, permission.

    The last line is its layout, to be given to all producers as their pin.
    """
    settings = settings_of(ctx)
    name = settings.topic(name)
    with settings.client() as client:
        found = client.routes.get(name)
        configs, errors = _settings(client, name, found)
    rows = [_row(broker, config) for broker, config in configs]
    layout = _layout_text(found)
    if output == "json":
        told = {"layout": layout, "order_conf": found.order_conf, "brokers": rows, "errors": errors}
        print_json({"schema": SHOW_SCHEMA, "topic": name} | told)
    else:
        cells = [[row[heading.replace(" ", "_")] for heading in _SHOWN] for row in rows]
        print_table(Table(_SHOWN, cells, title=name))
        click.echo(f"layout: {layout or '-'}", err=True)
    for broker, error in errors.items():
        click.echo(f"{printable(broker)} could not be asked: {printable(error)}", err=True)
    return NOT_MEASURED if errors else 0


_SHOWN = (
    "broker", "cluster", "master", "type", "read queues", "write queues", "permission", "order",
)  # fmt: skip

Configs = list[tuple[BrokerData, TopicConfig | None]]


def _settings(client: Client, name: str, found: TopicRoute) -> tuple[Configs, dict[str, str]]:
    """A topic's settings by broker, and the errors of those that could not be asked."""
    configs, errors = Configs(), dict[str, str]()
    for broker in sorted(found.brokers, key=lambda broker: broker.broker_name):
        config = None
        try:
            config = client.admin.topic_config(name, broker)
        except OrderlyError as error:
            errors[broker.broker_name] = str(error)
        configs.append((broker, config))
    return configs, errors


def _row(broker: BrokerData, config: TopicConfig | None) -> dict[str, Any]:
    """One broker; a master that is down, and what is not known, is None."""
    where = {"broker": broker.broker_name, "cluster": broker.cluster, "master": broker.master}
    if config is None:
        names = ("type", "read_queues", "write_queues", "permission", "order", "attributes")
        return where | dict.fromkeys(names)
    return where | {
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


def permission_text(permission: Permission) -> str:
    """What may be done with the queues: RW, R-, -W or --."""
    return ("R" if Permission.READ in permission else "-") + (
        "W" if Permission.WRITE in permission else "-"
    )
