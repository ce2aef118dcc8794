"""Which queues a topic has, and whether they are still those this producer counts on.

Strict: the layout first seen, or the one configured, is pinned; another one is refused. Loose:
each change is followed and logged, as Java follows it silently.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orderly.client.routes import Routes
from orderly.config import check_topic
from orderly.errors import RouteError, TopicNotFound
from orderly.model import MessageQueue, TopicRoute
from orderly.selectors.choice import Queues
from orderly.selectors.layout import Layout, check_layout, layout_of, parse_layout, queues_of

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

    def ready(self, topic: str, *, ordered: bool) -> bool:
        """Whether `queues` would answer at once, without asking a name server."""
        route = self._routes.cached(topic)
        seen = self._seen.get(topic)
        return route is not None and (not ordered or (seen is not None and seen.route is route))

    def queues(self, topic: str, *, ordered: bool) -> tuple[MessageQueue, ...]:
        """The topic's queues in counting order; asks a name server if need be.

        Args:
            topic: its name.
            ordered: for messages that have an order to keep. Without: whatever the route tells
                now will do, nothing is pinned.

        Raises:
            LayoutChanged: ordered and strict, and the route is not the pinned one.
            RouteError: no queue can be written to.
            TopicNotFound, NameServerUnavailable: there is no route to be had.
            ConfigError: no topic name; or ordered, and the topic is declared to have no order.
        """
        known = (self._seen if ordered else self._unordered).get(topic)
        route = self._routes.cached(topic) or self._fetch(topic)
        if known is not None and known.route is route:
            return known.queues
        if not ordered:
            known = self._unordered[topic] = _look_at(route)
            return known.queues
        if known is None:
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
                f" `orderly topic create {topic}`. It is not left to the broker to create it by"
                " itself, with a number of queues of its own: keys keep their order only while"
                " that number stays",
                code=error.code,
                remark=error.remark,
                address=error.address,
            ) from error

    def _look_again(self, topic: str) -> TopicRoute | None:
        """The route as a name server tells it now: what is refused may be over."""
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
        self._tell(route, seen.layout, known.layout if known is not None else None)
        return seen

    def _tell(self, route: TopicRoute, layout: Layout, before: Layout | None) -> None:
        if before is not None and before != layout:
            self._log.warning(
                "layout.changed",
                topic=route.topic,
                before=str(before),
                layout=str(layout),
            )
        elif before is None and not (self._loose or self._given or route.order_conf):
            self._log.warning(
                "layout.pinned",
                topic=route.topic,
                layout=str(layout),
                hint="give all producers of the topic this pin as ProducerConfig.layout",
            )


def _look_at(route: TopicRoute) -> _Seen:
    layout = layout_of(route)
    return _Seen(route, layout, Queues(queues_of(layout, route.topic)))
