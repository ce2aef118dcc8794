"""A topic's queues, as long as they are those that this producer counts on, and its declared type.

Strict: the layout first seen, or the one configured, is pinned; another one is refused. Loose:
each change is followed and logged, as Java follows it silently. A broker stores everything it is
sent over remoting; only proxies look at a topic's type. So it is asked for here, once for each
topic that keyed messages are sent to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orderly.client.admin import Admin
from orderly.client.routes import Routes
from orderly.config import check_topic
from orderly.errors import ConfigError, OrderlyError, RouteError, TopicNotFound
from orderly.foreign_text import shell_word
from orderly.interruptions import shielded
from orderly.model import BrokerData, TopicRoute
from orderly.protocol.topics import MessageType
from orderly.selectors.choice import Queues
from orderly.selectors.layout import Layout, check_layout, layout_of, parse_layout, queues_of

_WHY_NOT: Mapping[str, str] = {
    MessageType.DELAY: "others' messages appear in it when their time has come",
    MessageType.TRANSACTION: "others' messages appear in it when their transactions end",
    MessageType.PRIORITY: "its consumers get messages by priority",
    MessageType.LITE: "its messages live in lite topics, not in its own queues",
}


class TopicTypes:
    """The types of topics. Thread-safe.

    Args:
        admin: of the client.
        patience: seconds for an answer.
        log: for topics whose type is not known.
    """

    def __init__(self, admin: Admin, patience: float, log: Any) -> None:
        self._admin = admin
        self._patience = patience
        self._log = log
        self._asked: set[str] = set()  # and not refused; a refused topic is asked for again

    def check(self, route: TopicRoute) -> None:
        """Refuse a topic whose type says that it has no order. Blocks, the first time.

        A broker that does not answer stops nobody: the type is a declaration, and producers may
        lack the permission to ask for it (ACL action Get).

        Raises:
            ConfigError: the text says what to do.
        """
        broker = next((broker for broker in route.brokers if broker.master), None)
        if route.topic in self._asked or broker is None:
            return
        kind = self._kind(route.topic, broker)
        if kind in _WHY_NOT:
            raise ConfigError(
                f"topic {route.topic} is declared for messages of type {kind}: {_WHY_NOT[kind]},"
                " so messages that need order (with a sharding key, or under a selector that keeps"
                " order) are not sent to it. Send them to a topic of type FIFO, NORMAL or MIXED"
                " (`orderly topic create --type fifo`), or without a key"
            )
        self._asked.add(route.topic)

    def _kind(self, topic: str, broker: BrokerData) -> str:
        try:
            config = self._admin.topic_config(topic, broker, timeout=self._patience)
        except OrderlyError as error:
            self._log.info("topic.type_unknown", topic=topic, error=str(error))
            return MessageType.UNSPECIFIED
        return MessageType.NORMAL if config is None else config.message_type


# --- queues ---------------------------------------------------------------------------------------


STRICT, LOOSE = "strict", "loose"
_LOOK_AGAIN = 1.0  # seconds between questions to the name server about a topic that is refused


@dataclass(frozen=True, slots=True)
class _Seen:
    """A route that was looked at, and what it means for sends."""

    route: TopicRoute
    layout: Layout
    queues: Queues


class Topics:
    """The queues of topics, as selectors count them. Thread-safe.

    Args:
        routes: of the client.
        layout: "strict", "loose", or a pin.
        log: for events.
        check: asked about the route of each topic before messages with an order are sent to it;
            may block, raises ConfigError.

    Raises:
        ConfigError: `layout` is none of the three.
    """

    def __init__(
        self,
        routes: Routes,
        layout: str,
        log: Any,
        check: Callable[[TopicRoute], None] = lambda _: None,
    ) -> None:
        self._routes = routes
        self._check = check
        self._loose = layout == LOOSE
        self._given = None if layout in (STRICT, LOOSE) else parse_layout(layout)
        self._log = log
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}
        self._unordered: dict[str, _Seen] = {}
        self._looked_at: dict[str, float] = {}

    def known(self, topic: str, *, ordered: bool) -> Queues | None:
        """What `queues` would return, if it is known here. Never blocks."""
        seen = (self._seen if ordered else self._unordered).get(topic)
        return (
            seen.queues if seen is not None and seen.route is self._routes.cached(topic) else None
        )

    def queues(self, topic: str, *, ordered: bool) -> Queues:
        """The topic's queues in counting order; asks a name server if need be.

        Args:
            topic: its name.
            ordered: for messages that have an order to keep. Without: all queues the route lists
                now will do, nothing is pinned.

        Raises:
            LayoutChanged: ordered and strict, and the route is not the pinned one.
            RouteError: no queue can be written to.
            TopicNotFound, NameServerUnavailable: there is no route to be had.
            ConfigError: no topic name; or ordered, and the topic is declared to have no order.
        """
        known = self.known(topic, ordered=ordered)
        return shielded(lambda: self._find(topic, ordered)) if known is None else known

    def _find(self, topic: str, ordered: bool) -> Queues:
        route = self._routes.cached(topic) or self._fetch(topic)
        if not ordered:
            seen = self._unordered[topic] = _look_at(route)
            return seen.queues
        if topic not in self._seen:
            self._check(route)
        return self._ordered(route).queues

    def _ordered(self, route: TopicRoute) -> _Seen:
        try:
            return self._accept(route)
        except RouteError:
            fresh = self._look_again(route.topic)
            if fresh is None:
                raise
        return self._accept(fresh)

    def _fetch(self, topic: str) -> TopicRoute:
        try:
            return self._routes.get(check_topic(topic))
        except TopicNotFound as error:
            raise TopicNotFound(
                f"no running broker has the topic {topic!r}: check the name, or create it with"
                f" `orderly topic create {shell_word(topic)}`. The producer does not let the broker"
                " create it, because the broker would choose the number of queues, and keys keep"
                " their order only while that number stays the same",
                code=error.code,
                remark=error.remark,
                address=error.address,
            ) from error

    def _look_again(self, topic: str) -> TopicRoute | None:
        """The route as a name server gives it now: what is refused may be over."""
        now = time.monotonic()
        with self._lock:
            if now - self._looked_at.get(topic, -_LOOK_AGAIN) < _LOOK_AGAIN:
                return None
            self._looked_at[topic] = now
        return self._routes.refresh(topic)

    def _accept(self, route: TopicRoute) -> _Seen:
        with self._lock:
            known = self._seen.get(route.topic)
            pin = self._given or (known.layout if known is not None else None)
            if pin is not None and not self._loose:
                check_layout(pin, route)
            seen = self._seen[route.topic] = _look_at(route)
        self._log_layout(route, seen.layout, known.layout if known is not None else None)
        return seen

    def _log_layout(self, route: TopicRoute, layout: Layout, before: Layout | None) -> None:
        if before is not None and before != layout:
            self._log.warning(
                "layout.changed",
                topic=route.topic,
                before=str(before),
                layout=str(layout),
            )
        elif before is None and not (self._loose or self._given or route.order_conf):
            # One broker is there with all its queues, or not at all; of several one may be away.
            several = len(layout.brokers) > 1
            log = self._log.warning if several else self._log.info
            log(
                "layout.pinned",
                topic=route.topic,
                layout=str(layout),
                hint="give all producers of the topic this pin as ProducerConfig.layout",
            )


def _look_at(route: TopicRoute) -> _Seen:
    layout = layout_of(route)
    return _Seen(route, layout, Queues(queues_of(layout, route.topic)))
