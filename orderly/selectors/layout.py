"""The list of queues that selectors count, and the pin that keeps it from changing unseen.

A key's queue is a number modulo the length of this list: one queue more or less moves keys, and
a moved key overtakes its own earlier messages. Source: topicRouteData2TopicPublishInfo of Java's
MQClientInstance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from orderly.config.arguments import check_kind, check_text, check_topic, is_int
from orderly.errors import ConfigError, LayoutChanged, RouteError
from orderly.model import MessageQueue, TopicRoute
from orderly.protocol.body import MAX_QUEUES


@dataclass(frozen=True, slots=True)
class Layout:
    """Brokers and how many queues each has, in counting order. `str()` gives the pin's text.

    Raises:
        ConfigError: something other than names and numbers.
    """

    brokers: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.brokers, tuple) or not all(map(_is_row, self.brokers)):
            raise ConfigError("brokers must be (name, number of queues) of each broker, in a tuple")

    def __str__(self) -> str:
        return ";".join(f"{name}:{count}" for name, count in self.brokers)


def _is_row(row: object) -> bool:
    if not isinstance(row, tuple) or len(row) != 2:
        return False
    return isinstance(row[0], str) and is_int(row[1])


def parse_layout(text: str) -> Layout:
    """Read "broker-a:8;broker-b:8".

    Raises:
        ConfigError: empty, a broker twice, a count that is not a number from 1 up, or more than
            65,536 queues in all.
    """
    check_text("text", text)
    parts = [part.strip() for part in text.split(";") if part.strip()]
    brokers = tuple(_broker(part, text) for part in parts)
    if not brokers or len({name for name, _ in brokers}) != len(brokers):
        raise ConfigError(f"the layout {text!r:.200} must name each broker once: 'broker-a:8'")
    total = sum(count for _, count in brokers)
    if total > MAX_QUEUES:
        raise ConfigError(f"the layout {text!r:.200} has {total} queues; at most {MAX_QUEUES}")
    return Layout(brokers)


def _broker(part: str, text: str) -> tuple[str, int]:
    name, _, count = part.rpartition(":")
    if not name or not count.isdecimal() or len(count) > 9 or int(count) < 1:
        raise ConfigError(f"{part!r:.80} in the layout {text!r:.200} is not 'broker-name:queues'")
    return name, int(count)


def layout_of(route: TopicRoute) -> Layout:
    """The layout that a route has.

    The name server's order configuration wins: in its own order, brokers that are down included.
    Without one, the layout is the writable queues of brokers with a master, sorted.

    Raises:
        RouteError: no queue to write to, or an order configuration that cannot be read.
    """
    check_kind("route", route, TopicRoute)
    if route.order_conf:
        try:
            return parse_layout(route.order_conf)
        except ConfigError as error:
            raise RouteError(
                f"the name server's order configuration of {route.topic} is broken: {error};"
                " correct it with RocketMQ's `mqadmin updateOrderConf`"
            ) from error
    names = groupby(queue.broker_name for queue in route.write_queues())
    layout = Layout(tuple((name, len(list(same))) for name, same in names))
    if not layout.brokers:
        raise RouteError(
            f"no queue of {route.topic} can be written to: none of its brokers has both a live"
            " master and write permission; start the broker or grant the permission"
        )
    return layout


def queues_of(layout: Layout, topic: str) -> tuple[MessageQueue, ...]:
    """The queues of `topic` in counting order.

    Raises:
        ConfigError: an argument of another kind.
    """
    check_kind("layout", layout, Layout)
    check_topic(topic)
    return tuple(
        MessageQueue(topic, name, queue_id)
        for name, count in layout.brokers
        for queue_id in range(count)
    )


def check_layout(pin: Layout, route: TopicRoute) -> None:
    """Refuse a route whose layout is not the pinned one.

    Raises:
        LayoutChanged: the text holds both layouts.
        RouteError: as `layout_of`.
    """
    check_kind("pin", pin, Layout)
    found = layout_of(route)
    if found != pin:
        raise LayoutChanged(
            f"the queues of {route.topic} are {found} but this producer is pinned to {pin}:"
            " sending now would move keys to other queues and break their order. If a broker is"
            " down, wait until it is back; if the queues were changed on purpose, stop all"
            " producers of the topic, let the consumers catch up, then start them with"
            f" layout='{found}' (layout='loose' follows every change, as Java does)"
        )
