"""Routes: asked of the name servers, and kept fresh.

A route is fetched once and refreshed every 30 s, and soon after a failure that makes it suspect.
A refresh that fails keeps the old route: a name server's trouble must not stop what works.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable

from orderly.client.background import Periodic, SingleFlight
from orderly.client.calls import Calls, failure
from orderly.errors import (
    BrokerError,
    NameServerUnavailable,
    OrderlyError,
    RemotingError,
    RouteError,
    TopicNotFound,
)
from orderly.interruptions import shielded
from orderly.log import get_logger
from orderly.model import BrokerData, MessageQueue, TopicRoute
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.route import ClusterInfo, GetRouteInfo, decode_cluster_info, decode_route
from orderly.protocol.topics import decode_topic_list


class NameServers:
    """The name servers of one client. Thread-safe; every method blocks and may connect.

    A proxy can take their place: in all routes that it knows, every broker has the proxy's address.

    One server is asked until it fails, then the next one (Java: NettyRemotingClient keeps one
    name server, too). Name servers do not know of each other, and one that has just started knows
    no topic yet: so a "no" is believed only when all say so.

    Args:
        addresses: at least one "host:port".
        calls: of the client.
    """

    def __init__(self, addresses: tuple[str, ...], calls: Calls) -> None:
        self.addresses = addresses
        self._calls = calls
        self._current = 0

    def route(self, topic: str) -> TopicRoute:
        """Where the topic's queues live.

        Raises:
            TopicNotFound: no name server knows the topic.
            NameServerUnavailable: none answered.
        """
        reply, address = self._ask(_route_command(topic), f"the route of topic {topic!r}")
        route = decode_route(topic, reply.body)
        if self._calls.is_proxy(address):
            self._calls.note_proxies(b.master for b in route.brokers if b.master)
        return route

    def topics(self) -> tuple[str, ...]:
        """All topics, sorted; also the system's own, %RETRY% and %DLQ% ones.

        Raises:
            NotAtProxy: a proxy is in their place.
            NameServerUnavailable: none answered.
        """
        command = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return decode_topic_list(self._ask(command, "all topics")[0].body)

    def cluster(self) -> ClusterInfo:
        """All brokers with their addresses, and the clusters they belong to.

        Raises:
            NotAtProxy: a proxy is in their place.
            NameServerUnavailable: none answered.
        """
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        return decode_cluster_info(self._ask(command, "the clusters")[0].body)

    def ask_all(self, command: RemotingCommand, what: str) -> None:
        """Ask every name server, as they do not know of each other.

        Raises:
            OrderlyError: one did not do it; those before it have.
        """
        for address in self.addresses:
            self._calls.ask(address, command, what)

    def is_proxy(self, address: str) -> bool:
        """Whether a proxy answers there; asks it for a route, if that is not known."""
        if not self._calls.is_proxy(address):
            with contextlib.suppress(OrderlyError):
                self._asked(address, _route_command(_ANY_TOPIC), "a route")
        return self._calls.is_proxy(address)

    def _ask(self, command: RemotingCommand, what: str) -> tuple[RemotingCommand, str]:
        """Ask one that answers; returns the answer, and whose it is."""
        first = self._current
        refusal: BrokerError | None = None
        silence: RemotingError | None = None
        for step in range(len(self.addresses)):
            index = (first + step) % len(self.addresses)
            address = self.addresses[index]
            try:
                reply = self._asked(address, command, what)
            except BrokerError as error:
                refusal = error
            except RemotingError as error:
                silence = error
            else:
                self._current = index
                return reply, address
        raise refusal or self._unavailable(silence)

    def _asked(self, address: str, command: RemotingCommand, what: str) -> RemotingCommand:
        reply = self._calls.ask(address, command, what, accept=_ANY_ANSWER)
        if command.code == GetRouteInfo.code:
            if _BY_PROXY in reply.ext:
                self._calls.note_proxies([address])
        elif reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self.is_proxy(address)
        if reply.code != ResponseCode.SUCCESS:
            raise failure(reply, address, what, by_proxy=self._calls.is_proxy(address))
        return reply

    def _unavailable(self, cause: OrderlyError | None) -> NameServerUnavailable:
        error = NameServerUnavailable(
            f"no name server answered ({', '.join(self.addresses)}): {cause}",
            ", ".join(self.addresses),
        )
        error.__cause__ = cause
        return error


_ANY_TOPIC = "TBW102"  # every broker has it
_ANY_ANSWER = range(1 << 16)  # response codes
_BY_PROXY = "MSG_REGION"  # a proxy puts it into every answer (AbstractRemotingActivity)


def _route_command(topic: str) -> RemotingCommand:
    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    return request(header.code, to_ext(header))


# --- the routes this client knows -----------------------------------------------------------------


_log = get_logger("orderly.client")
_LOOKS_ANEW = 1.0  # seconds in which a proxy asks its name server
_SUSPECT_AFTER = 1.0  # seconds between fetches of one suspect route: many calls fail at once


class Routes:
    """Routes by topic. Thread-safe.

    Args:
        fetch: asks the name servers for a topic's route; blocks.
        interval: seconds between refreshes of all known routes.
        stale: whether an answer may be an old one: a proxy keeps routes.
    """

    def __init__(
        self,
        fetch: Callable[[str], TopicRoute],
        interval: float,
        stale: Callable[[], bool] = lambda: False,
    ) -> None:
        self._fetch = fetch
        self._stale = stale
        self._interval = interval
        self._fetching = SingleFlight[TopicRoute]()
        self._lock = threading.Lock()
        self._routes: dict[str, TopicRoute] = {}
        self._asked_at: dict[str, float] = {}
        self._failing: set[str] = set()
        self._suspects: set[str] = set()
        self._missing: set[str] = set()
        self._all_due = time.monotonic() + interval
        self._refresher = Periodic("routes", interval, self._round, first_after=interval)

    def start(self) -> None:
        """Begin to refresh in the background."""
        self._refresher.start()

    def close(self) -> None:
        """End refreshing. Idempotent."""
        self._refresher.stop(timeout=5.0)

    def get(self, topic: str) -> TopicRoute:
        """The topic's route, from memory or from a name server.

        Raises:
            TopicNotFound: no name server knows the topic.
            NameServerUnavailable: none answered.
        """
        return self._routes.get(topic) or self.refresh(topic)

    def get_anew(self, topic: str) -> TopicRoute:
        """As `get`; where nothing is found it is asked for once more.

        A proxy answers with what it found up to 300 s ago, and looks then: a topic that was made
        meanwhile is there at the second question.
        """
        try:
            return self.get(topic)
        except TopicNotFound:
            if not self._stale():
                raise
            time.sleep(_LOOKS_ANEW)
            return self.refresh(topic)

    def cached(self, topic: str) -> TopicRoute | None:
        """The topic's route if it is known here. Never blocks."""
        return self._routes.get(topic)

    def missing(self, topic: str) -> bool:
        """Whether the name server last said that there is no such topic. Never blocks.

        A route that was known stays, for a name server that was restarted knows no topic for some
        seconds. Whoever can make the topic asks the brokers.
        """
        return topic in self._missing

    def refresh(self, topic: str) -> TopicRoute:
        """Fetch the topic's route now. The known one stays if that fails.

        Raises:
            TopicNotFound: no name server knows the topic (any more).
            NameServerUnavailable: none answered.
        """
        return shielded(lambda: self._fetching.do(topic, lambda: self._renew(topic)))

    def forget(self, topic: str) -> None:
        """Drop the topic's route, so that it is no longer refreshed."""
        shielded(lambda: self._forget(topic))

    def _forget(self, topic: str) -> None:
        with self._lock:
            self._routes.pop(topic, None)
            self._asked_at.pop(topic, None)
            self._missing.discard(topic)
            self._suspects.discard(topic)

    def suspect(self, topic: str) -> None:
        """Have the topic's route fetched again in the background, soon. Never blocks."""
        shielded(lambda: self._suspect(topic))

    def _suspect(self, topic: str) -> None:
        with self._lock:
            if topic not in self._routes:
                return  # whoever needs it fetches it
            if time.monotonic() - self._asked_at.get(topic, -math.inf) < _SUSPECT_AFTER:
                return
            self._suspects.add(topic)
        self._refresher.wake()

    def address(self, queue: MessageQueue) -> str:
        """The master's address to ask about a queue; fetches the route if it is not known.

        Raises:
            RouteError: the route has no such broker, or no master of it.
            TopicNotFound, NameServerUnavailable: the route is not known and not to be had.
        """
        return address_in(self.get(queue.topic), queue.broker_name)

    def master(self, queue: MessageQueue) -> str:
        """As `address`; where the topic's route has no such broker, by any route that has it.

        A topic that is deleted at one broker leaves that broker out of its route. Whoever still
        holds its queues there has offsets and locks to give back. (Java finds a broker by its name
        alone: MQClientInstance.brokerAddrTable.)
        """
        route = self.get(queue.topic)
        elsewhere = None
        if route.broker(queue.broker_name) is None:
            elsewhere = self.master_of(queue.broker_name)
        return elsewhere or address_in(route, queue.broker_name)

    def master_of(self, broker_name: str) -> str | None:
        """The address of a broker's master by any known route; None: none has it. Never blocks."""
        routes = [r for topic, r in tuple(self._routes.items()) if topic not in self._missing]
        brokers = (route.broker(broker_name) for route in routes)
        return next((broker.master for broker in brokers if broker and broker.master), None)

    def brokers(self) -> tuple[BrokerData, ...]:
        """The brokers of all known routes; one for each route that has it."""
        routes = tuple(self._routes.values())
        return tuple(broker for route in routes for broker in route.brokers)

    def broker_addresses(self) -> tuple[str, ...]:
        """All masters and slaves of all known routes, sorted."""
        return tuple(sorted({a for b in self.brokers() for a in b.addresses.values() if a}))

    def _renew(self, topic: str) -> TopicRoute:
        with self._lock:
            self._asked_at[topic] = time.monotonic()
            self._suspects.discard(topic)
        try:
            route = self._fetch(topic)
        except TopicNotFound:
            with self._lock:
                self._missing.add(topic)
            raise
        with self._lock:
            self._missing.discard(topic)
            before = self._routes.get(topic)
            self._routes[topic] = route
        if before is not None and before != route:
            _log.info("route.changed", topic=topic, before=_shape(before), after=_shape(route))
        return route

    def _round(self) -> None:
        for topic in self._due(time.monotonic()):
            try:
                self.refresh(topic)
            except OrderlyError as error:
                self._report(topic, error)
            else:
                self._failing.discard(topic)

    def _report(self, topic: str, error: OrderlyError) -> None:
        """Warn once for each time it begins to fail, not at every attempt."""
        emit = _log.debug if topic in self._failing else _log.warning
        self._failing.add(topic)
        emit("route.not_refreshed", topic=topic, error=str(error))

    def _due(self, now: float) -> list[str]:
        with self._lock:
            if now < self._all_due:
                topics = sorted(self._suspects)
            else:
                topics = sorted(self._routes)
                self._all_due = now + self._interval
            self._suspects.clear()
            return topics


def address_in(route: TopicRoute, broker_name: str, *, replica: int | None = None) -> str:
    """The address of a broker of `route`.

    Args:
        route: of the topic in question.
        broker_name: one of its brokers.
        replica: the broker id to prefer where a slave will do, too (a pull's reply suggests one);
            None: only the master.

    Raises:
        RouteError: no such broker, or no fitting address.
    """
    broker = route.broker(broker_name)
    if broker is None:
        known = ", ".join(sorted(b.broker_name for b in route.brokers)) or "none"
        raise RouteError(
            f"topic {route.topic!r} has no broker {broker_name!r} (it has: {known}); use a queue"
            " of the topic's present route"
        )
    address = broker.master if replica is None else _any_address(broker, replica)
    if not address:
        missing = "master" if replica is None else "address"
        raise RouteError(
            f"broker {broker_name!r} of topic {route.topic!r} has no {missing} at the name server;"
            " wait until it is back"
        )
    return address


def _any_address(broker: BrokerData, broker_id: int) -> str | None:
    """The preferred replica, else the master, else the first slave."""
    addresses = broker.addresses
    return addresses.get(broker_id) or next((addresses[n] for n in sorted(addresses)), None)


def _shape(route: TopicRoute) -> str:
    """A route in a line, for the log: what decides where keys go, and who serves them."""
    masters = {b.broker_name: b.master for b in route.brokers}
    return "; ".join(
        f"{q.broker_name}@{masters.get(q.broker_name)}:"
        f" read {q.read_queues} write {q.write_queues} perm {int(q.permission)}"
        for q in sorted(route.queues, key=lambda q: q.broker_name)
    )
