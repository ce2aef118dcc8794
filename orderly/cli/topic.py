"""`orderly topic create|list|show|grow|delete`.

What `grow` does is in `monitoring.topic_growth`; here are options, texts and exit codes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import Group, OrderlyCommand
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.options import Duration
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.selection import Names, complete_group, topic_argument, topics_options
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import confirmed, say, tell, yes_option
from orderly.errors import ConfigError, OrderlyError, RouteError
from orderly.log import get_logger
from orderly.model import BrokerData, Permission, TopicRoute
from orderly.monitoring.collecting.selection import (
    is_book_keeping,
    is_internal,
    is_system_group,
    is_system_topic,
)
from orderly.monitoring.texts import Cell, Column, ColumnKind, counted, iso_time
from orderly.protocol.topics import MessageType, TopicConfig
from orderly.selectors.layout import layout_of

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.topic_growth import DrainStatus, TopicGrowth


GROW_SCHEMA = "orderly.topic-grow/v1"
GROW = """\b
Examples:
  orderly topic grow orders --queues 16 --dry-run
  orderly topic grow orders --queues 16 --timeout 30m --yes
"""


@click.command(
    "grow",
    cls=OrderlyCommand,
    short_help="Drain a topic, then give it more queues.",
    epilog=GROW,
)
@topic_argument
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
    help="How long to wait for the topic to drain.",
)
@click.option(
    "--idle",
    "quiet",
    type=Duration(),
    help="The topic counts as closed after this time without a new message. It must be longer than"
    " producers keep an old route. Default: 35s; 5m35s where a proxy is there, which keeps routes"
    " for 5 minutes.",
)
@click.option(
    "--observe",
    "watch",
    type=Duration(),
    default="5s",
    show_default=True,
    help="How long to watch for new messages before changing anything.",
)
@click.option(
    "--ignore-group",
    multiple=True,
    metavar="GROUP",
    shell_complete=complete_group,
    help="Do not wait for this group, as it is gone for good; may be given again.",
)
@click.option("--dry-run", is_flag=True, help="Only show the plan, and which groups are behind.")
@yes_option
@format_options()
@common_options
@click.pass_context
def grow(
    ctx: click.Context,
    /,
    *,
    topic: str,
    queues: int,
    ignore_group: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    form: Format,
    quiet: float | None,
    **seconds: float,
) -> int:
    """Give TOPIC more queues without breaking the order of any key.

    With more queues, keys move to other queues. So stop the producers first, or pin them to the new
    layout: their sends then fail until it is in force.

    The command closes the topic for writing and waits until every group has finished all messages
    and no key is parked. Then it adds the queues on all brokers and opens the topic again. On a
    failure, a time-out or Ctrl-C it restores everything as it was.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    ignored = [settings.group(group) for group in ignore_group]
    form.require_answer(ctx, yes, dry_run, otherwise="--yes or --dry-run")
    from orderly.monitoring.topic_growth import (  # noqa: PLC0415  `--help` is quick
        Patience,
        TopicGrowth,
        quiet_needed,
    )

    began = time.time()
    with settings.client() as client:
        growth = TopicGrowth(client, topic, queues, ignored)
        seen = _Seen(growth.standing(), growth.producers())
        if form.for_reader:
            _show_plan(growth, seen, form, settings)
        if growth.plan.needed and not dry_run:
            question = f"Are the producers of {topic} stopped, or pinned? Go on?"
            if not (yes or confirmed(ctx, question, "--yes (or --dry-run)")):
                say("nothing was changed")
                return NOT_MEASURED
            quiet = quiet_needed(client) if quiet is None else quiet
            growth.run(Patience(quiet=quiet, **seconds), _GrowthProgress())
    if not form.for_reader:
        document = partial(_document, growth, seen, began, dry_run=dry_run)
        show(CommandOutput(_PLANNED, _rows(growth), document), form, settings)
    elif growth.plan.needed and not dry_run:
        say(f"{topic} has {queues} queues on each broker; pin its producers to the new layout:")
        tell(f"layout={growth.plan.pin}")
    return 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there was before anything was changed."""

    standing: DrainStatus
    producers: dict[str, int] | None


class _GrowthProgress:
    """Says on stderr how far it is; the same text once."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, text: str) -> None:
        if text != self._last:
            self._last = text
            say(text)


def _show_plan(growth: TopicGrowth, seen: _Seen, form: Format, settings: CommonOptions) -> None:
    plan = growth.plan
    if not plan.needed:
        say(f"{plan.topic} has {plan.queues} queues on each broker: nothing to do")
        return
    show(CommandOutput(_PLANNED, _rows(growth)), form, settings)
    for behind in seen.standing.behind:
        say(f"not finished: {behind}")
    say(f"producers connected, of this or other topics: {_listed(seen.producers)}")


_PLANNED = (
    Column("broker"),
    Column("read queues", ColumnKind.NUMBER),
    Column("write queues", ColumnKind.NUMBER),
    Column("open"),
    Column("after", ColumnKind.NUMBER),
)


def _rows(growth: TopicGrowth) -> list[tuple[Cell, ...]]:
    rows = [tuple(row.values()) for row in _brokers(growth)]
    return [(*row[:3], "yes" if row[3] else "no", row[4]) for row in rows]


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
        "schema": GROW_SCHEMA,
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


# --- create, list, show ---------------------------------------------------------------------------


_TYPES = [kind for kind in MessageType if kind is not MessageType.UNSPECIFIED]
DEFAULT_QUEUES = 8  # on each broker
_ORDERED = {None, MessageType.NORMAL, MessageType.FIFO, MessageType.MIXED}
SHOW_SCHEMA = "orderly.topic/v1"
DELETE_SCHEMA = "orderly.topic-delete/v1"
CREATE = """\b
Examples:
  orderly topic create orders --queues 16
  orderly topic create orders --type fifo
  orderly topic create orders --for-group billing
"""
LIST = """\b
Examples:
  orderly topic list
  orderly topic list 'ord*'
  orderly topic list --all -o json
"""
SHOW = """\b
Examples:
  orderly topic show orders
  orderly topic show orders -o json
"""


@click.group(cls=Group)
def topic() -> None:
    """Topics: list them, show, create, grow, delete them."""


topic.add_command(grow)


@topic.command("create", epilog=CREATE)
@click.argument("topic")
@click.option(
    "--queues",
    type=click.IntRange(1, 1024),
    metavar="N",
    help=f"How many, on each broker. Default: {DEFAULT_QUEUES}.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice([kind.lower() for kind in _TYPES]),
    help="The message type to declare. Proxies refuse other types. fifo: with a sharding key;"
    " normal: without; mixed: both, where brokers allow it (enableMixedMessageType). Default: not"
    " declared, which means normal.",
)
@click.option("--cluster", metavar="NAME", help="The cluster, if there are several.")
@click.option(
    "--for-group",
    "group",
    metavar="GROUP",
    shell_complete=complete_group,
    help="Create the two topics in which GROUP keeps its state of TOPIC with order by key, with as"
    " many queues. For consumers that must not create them themselves, or cannot: behind a proxy.",
)
@click.option("--dry-run", is_flag=True, help="With --for-group: only show them.")
@common_options
@click.pass_context
def create(
    ctx: click.Context,
    topic: str,
    *,
    queues: int | None,
    kind: str | None,
    cluster: str | None,
    group: str | None,
    dry_run: bool,
) -> None:
    """Create TOPIC. The number of queues limits how many members can consume it in parallel.

    1 queue gives global order; more give order per sharding key. Choose the number well: another
    number moves keys to other queues, so you must drain the topic before you change it (see
    `orderly topic grow`).

    If the topic already exists with this number of queues (and this type, if you give one), nothing
    changes. If it exists with another number or type, that is an error.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    if group is not None:
        if queues is not None or kind is not None or cluster is not None:
            raise click.UsageError("--for-group takes no --queues, --type or --cluster", ctx)
        _create_for_group(settings, topic, settings.group(group), dry_run=dry_run)
        return
    if dry_run:
        raise click.UsageError("--dry-run is for --for-group", ctx)
    queues = queues or DEFAULT_QUEUES
    wanted = None if kind is None else MessageType[kind.upper()]
    with settings.client() as client:
        created = client.admin.create_topic(
            topic, queues, order=wanted in _ORDERED, cluster=cluster, message_type=wanted
        )
    number = counted(queues, "queue")
    if created:
        tell(f"created {topic} with {number} on each broker")
    else:
        tell(f"{topic} already exists with {number}")


def _create_for_group(settings: CommonOptions, topic: str, group: str, *, dry_run: bool) -> None:
    """Make, grow or only show the two topics of a group with order by key."""
    from orderly.client.state_topics import StateTopics  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        route = client.routes.get(topic)
        queues = max(max(data.read_queues, data.write_queues) for data in route.queues)
        topics = StateTopics(client, group, create=True, log=get_logger("orderly.cli"))
        for own in topics.of(topic):
            tell(f"{own.topic}  {own.kind}, {queues} queues")
        for *_, error in () if dry_run else topics.faults(topic):
            raise error
    if not dry_run:
        tell(f"both are there: group {group} may consume {topic} with order by key")


@topic.command("list", epilog=LIST)
@topics_options
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also RocketMQ's own topics, and those of groups: retries, dead letters, state, parked"
    " messages.",
)
@format_options()
@common_options
@click.pass_context
def list_topics(ctx: click.Context, *, names: Names, everything: bool, form: Format) -> None:
    """List all topics, or only TOPIC... (names or globs). Internal topics are left out."""
    settings = settings_of(ctx)
    selection = names.selection(settings, system=everything)
    with settings.client() as client:
        known = settings.own(client.admin.topics())
        for name in selection.named_topics:
            if name not in known:
                raise ConfigError(
                    f"there is no topic {name}: check the name (`orderly topic list` shows all)"
                )
        found = sorted(filter(selection.topic, known))
        if not everything:
            info = client.admin.cluster()
            own = {*info.brokers, *info.clusters}  # a topic each, to be found by
            own |= {f"{name}_REPLY_TOPIC" for name in info.clusters}
            found = [name for name in found if name not in own and not is_internal(name)]
    rows = [(name,) for name in found]
    show(CommandOutput((Column("topic"),), rows, lambda: found), form, settings)


@topic.command("show", epilog=SHOW)
@topic_argument
@format_options()
@common_options
@click.pass_context
def show_topic(ctx: click.Context, topic: str, form: Format) -> int:
    """Show which brokers hold TOPIC, and its settings on each: queues, permission.

    The last line is its layout. Give it to all producers as their pin.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    with settings.client() as client:
        found = client.routes.get(topic)
        configs, errors = _settings(client, topic, found)
    rows = [_row(broker, config) for broker, config in configs]
    layout = _layout_text(found)
    fields = {"layout": layout, "order_conf": found.order_conf, "brokers": rows, "errors": errors}
    document = {"schema": SHOW_SCHEMA, "topic": topic} | fields
    show(CommandOutput.of(_SHOWN, rows, document), form, settings)
    if form.for_rows:
        say(f"layout: {layout or '-'}")
    for broker, error in errors.items():
        say(f"{broker} could not be asked: {error}")
    return NOT_MEASURED if errors else 0


_SHOWN = (
    Column("broker"),
    Column("cluster"),
    Column("master"),
    Column("type"),
    Column("read queues", ColumnKind.NUMBER),
    Column("write queues", ColumnKind.NUMBER),
    Column("permission"),
    Column("order"),
)

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


# --- delete ---------------------------------------------------------------------------------------


DELETE = """\b
Examples:
  orderly topic delete orders --dry-run
  orderly topic delete orders
"""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A topic, and who would miss it.

    Attributes:
        topic: its name.
        messages: that it holds.
        consumers: by group that consumes it, how many members are online for it; None: not known.
        producers: connected to the brokers, of this or other topics.
    """

    topic: str
    messages: int
    consumers: dict[str, int | None]
    producers: dict[str, int]

    def uses(self) -> list[str]:
        """Who uses it."""
        members = [
            f"{'an unknown number of members' if n is None else counted(n, 'member')} of {group}"
            for group, n in self.consumers.items()
            if n != 0
        ]
        if is_book_keeping(self.topic):
            members.append("it holds what a group knows of its keys, or its parked messages")
        return members


@topic.command("delete", epilog=DELETE)
@topic_argument
@click.option("--force", is_flag=True, help="Delete it even while members consume it.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@yes_option
@format_options()
@common_options
@click.pass_context
def delete_topic(
    ctx: click.Context, *, topic: str, force: bool, dry_run: bool, yes: bool, form: Format
) -> int:
    """Delete TOPIC with all its messages, and the offsets that groups have in it.

    The command refuses while members consume the topic. With --force it deletes anyway; those
    members continue only if the topic is created again. Stop the producers first, or their sends
    fail: a broker does not know which topics a producer sends to.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    form.require_answer(ctx, yes, dry_run, otherwise="--yes or --dry-run")
    if is_system_topic(topic):
        raise ConfigError(f"{topic} is RocketMQ's own: it is not deleted")
    began = time.time()
    with settings.client() as client:
        found = _look_at(client, topic)
        if form.for_reader:
            show(CommandOutput.of(_CONSUMERS, _consumers(found), None), form, settings)
            say(f"it holds {counted(found.messages, 'message', f'{found.messages:,}')}")
            say(f"producers connected, of this or other topics: {_listed(found.producers)}")
        uses = found.uses()
        if uses and not (force or dry_run):
            raise ConfigError(
                f"topic {topic} is in use: {'; '.join(uses)}. Nothing was deleted; --force deletes"
                " it anyway"
            )
        if not dry_run:
            if not (yes or confirmed(ctx, f"Delete topic {topic}?", "--yes (or --dry-run)")):
                say("nothing was deleted")
                return NOT_MEASURED
            client.housekeeping.delete_topic(topic)
            say(f"deleted {topic}")
    if not form.for_reader:
        heading = {"schema": DELETE_SCHEMA, "time": iso_time(began), "topic": topic}
        fields = {"dry_run": dry_run, "messages": found.messages, "uses": uses}
        document = heading | fields | {"groups": _consumers(found), "producers": found.producers}
        show(CommandOutput.of(_CONSUMERS, _consumers(found), document), form, settings)
    return 0


_CONSUMERS = (Column("group"), Column("members", ColumnKind.COUNT))


def _consumers(found: Deletion) -> list[dict[str, Any]]:
    return [{"group": name, "members": count} for name, count in found.consumers.items()]


def _look_at(client: Client, topic: str) -> Deletion:
    """Look at a topic.

    Raises:
        TopicNotFound: no such topic.
        OrderlyError: a broker did not answer: it would keep its part of the topic.
    """
    stats = client.admin.topic_stats(topic)
    groups = (name for name in client.groups.consuming(topic) if not is_system_group(name))
    return Deletion(
        topic,
        sum(span.max_offset - span.min_offset for span in stats.values()),
        {name: _online(client, name, topic) for name in groups},
        {group: len(ids) for group, ids in sorted(client.groups.producers().items())},
    )


def _online(client: Client, group: str, topic: str) -> int | None:
    from orderly.monitoring.collecting.members import is_proxied  # noqa: PLC0415  `--help` is quick

    try:
        members = client.admin.consumer_connections(group)
        if members is None and is_proxied(client):
            return None  # brokers do not know a proxy's members
    except OrderlyError:
        return None
    return len(members.connections) if members and topic in members.subscriptions else 0
