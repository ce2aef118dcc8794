"""The public ordered consumer: its life from created over running to closed.

It puts the loops together; the loops live one a file beside it.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Self

from orderly.client import Client
from orderly.config import ConsumerConfig, check_group, check_topic, parse_consume_from
from orderly.consumer.context import Handler
from orderly.consumer.lock_keeper import LockKeeper
from orderly.consumer.offset_saver import OffsetSaver
from orderly.consumer.puller import Puller
from orderly.consumer.rebalancer import Rebalancer
from orderly.consumer.session import Held, Session, now
from orderly.consumer.worker import Worker
from orderly.errors import ConfigError, LifecycleError, NotAvailableYet
from orderly.model import MessageQueue
from orderly.ordering.owned_queue import Drop
from orderly.ordering.start import RETRY_PREFIX
from orderly.protocol.heartbeat import Subscription
from orderly.remoting.periodic import Periodic

_RELEASE_RETRY = 0.5  # seconds between attempts to hand queues on while closing


class State(StrEnum):
    """Where a consumer is in its life."""

    CREATED = "created"
    RUNNING = "running"
    FAILED = "failed"
    CLOSED = "closed"


class OrderlyConsumer:
    """Consumes topics in order, one message of a queue at a time, under the broker's queue lock.

    Thread-safe. Delivery is at least once: after a crash or a lost lock a queue starts again from
    its committed offset. The handler runs on worker threads, for different queues side by side.

        def handle(messages, context):
            for message in messages:
                ship(message.sharding_key, message.body)
            return ConsumeResult.SUCCESS

        consumer = OrderlyConsumer("shipping", handle, namesrv="localhost:9876")
        with consumer.subscribe("orders"):  # starts it, and closes it at the end
            consumer.wait()

    Args:
        group: the consumer group; its members share the queues. 1-120 characters of
            `%|a-zA-Z0-9_-`.
        handler: called with (messages, context); answers with a ConsumeResult. A raise, None or
            anything else is a failure: the queue waits and the messages come again.
        namesrv: "host:port;host:port"; empty: the environment's ORDERLY_NAMESRV.
        config: further settings.
        client: a running Client to share; otherwise the consumer has its own.

    Raises:
        ConfigError: a bad group name, address or setting, a handler that is not callable.
        NotAvailableYet: a setting that this release does not implement.
    """

    def __init__(
        self,
        group: str,
        handler: Handler,
        *,
        namesrv: str = "",
        config: ConsumerConfig | None = None,
        client: Client | None = None,
    ) -> None:
        check_group(group)
        _check_handler(handler)
        if client is not None and namesrv:
            raise ConfigError("pass namesrv or client, not both: a client has its name servers")
        self.group = group
        self.config = config or ConsumerConfig()
        self.state = State.CREATED
        self._registered = False
        self._owns_client = client is None
        self._client = client or Client(namesrv=namesrv)
        self._lifecycle = threading.RLock()
        self._closed = threading.Event()
        self._attention = threading.Event()
        start = parse_consume_from(self.config.consume_from)
        self._session = Session(group, self._client, self.config, start)
        self._session.attention = self._on_attention
        self._build_loops(handler)

    def _build_loops(self, handler: Handler) -> None:
        session, config = self._session, self.config
        self._worker = Worker(session, handler, self._reopen)
        self._puller = Puller(session, self._worker.submit)
        self._saver = OffsetSaver(session)
        self._rebalancer = Rebalancer(session, self._saver, self._puller.start, self._again)
        self._rounds = self._periodic(
            "rebalance", config.rebalance_interval, self._rebalancer.round
        )
        keeper = LockKeeper(session, self._renew_again)
        self._locks = self._periodic("locks", config.lock_interval, keeper.renew_all, first=1.0)
        self._offsets = self._periodic("offsets", config.commit_interval, self._saver.save_all)

    def _periodic(
        self, role: str, interval: float, work: Callable[[], object], first: float | None = None
    ) -> Periodic:
        first_after = interval if first is None else first
        return Periodic(f"{role}-{self.group}", interval, work, first_after=first_after)

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str = "*") -> Self:
        """Consume `topic`; before the start, or while running. Returns the consumer itself.

        Args:
            topic: must exist by the time of the start.
            tags: "*", or "A || B": other messages are passed over and count as done. For a topic
                subscribed before they replace the old ones at once; its queues are taken anew.

        Raises:
            ConfigError: a bad topic name or tag expression.
            TopicNotFound: running, and no name server knows the topic.
            LifecycleError: after close.
        """
        check_topic(topic)
        if not isinstance(tags, str):
            raise ConfigError(f"tags must be a str such as '*' or 'A || B', not {tags!r}")
        with self._lifecycle:
            self._require(State.CREATED, State.RUNNING)
            if self.state is State.RUNNING:
                self._client.routes.get(topic)
            subscription = Subscription.from_expression(topic, tags, _version())
            self._session.subscriptions = {**self._session.subscriptions, topic: subscription}
            self._announce()
        return self

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming `topic`: its queues are saved, released and unlocked. Returns at once."""
        with self._lifecycle:
            rest = {**self._session.subscriptions}
            rest.pop(topic, None)
            self._session.subscriptions = rest
            self._announce()

    def _announce(self) -> None:
        if self.state is State.RUNNING:
            self._rebalancer.drop_outdated()
            self._client.heartbeat.heartbeat_now()
            self._rounds.wake()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Join the group and begin to consume; returns once the first round has been asked for.

        Raises:
            LifecycleError: started before, closed, or the group twice in one client.
            TopicNotFound: a subscribed topic does not exist.
            NameServerUnavailable: no name server answered. Nothing is left running after any error.
        """
        with self._lifecycle:
            self._require(State.CREATED)
            try:
                self._join()
            except BaseException:
                self.state = State.FAILED
                self._stop_parts()
                raise
            self.state = State.RUNNING
        return self

    def _join(self) -> None:
        session, client = self._session, self._client
        client.start()
        for topic in session.subscriptions:
            client.routes.get(topic)
        retry_topic = RETRY_PREFIX + self.group
        retry = Subscription.from_expression(retry_topic, "*", _version())
        session.subscriptions = {**session.subscriptions, retry_topic: retry}
        client.heartbeat.register_consumer(
            self.group,
            subscriptions=lambda: tuple(session.subscriptions.values()),
            on_members_changed=self._rounds.wake,
            consume_from=self.config.consume_from,
        )
        self._registered = True
        client.heartbeat.heartbeat_now()
        for loop in (self._rounds, self._locks, self._offsets):
            loop.start()
        self._rounds.wake()
        session.log.info("consumer started", topics=sorted(session.subscriptions))

    def close(self) -> None:
        """Stop cleanly: handlers end, offsets are saved, then all locks are released at once.

        Waits up to `close_timeout` seconds for running handlers. A queue whose handler still runs
        then stays locked, and the lock is renewed in the background until the handler ends, for
        nobody may start beside it; its offset is saved and the log names it. If the process ends
        before, the broker frees the queue within 60 s. Idempotent.

        Raises:
            LifecycleError: called by a handler, which would wait for itself.
        """
        if self._worker.inside:
            raise LifecycleError("close() was called by a handler; call it from another thread")
        with self._lifecycle:
            if self.state is State.CLOSED:
                return
            ended = self.state is not State.RUNNING or self._wind_down()
            self.state = State.CLOSED
            if ended:
                self._stop_parts()
            else:
                self._outlive()
            self._closed.set()

    def _wind_down(self) -> bool:
        """Release every queue; returns whether that was done within `close_timeout`."""
        deadline = now() + self.config.close_timeout
        self._rounds.stop()
        self._puller.close()
        self._rebalancer.drop_all(Drop.CLOSING)
        while not self._released(deadline):
            left = deadline - now()
            if left <= 0:
                return False
            self._attention.wait(min(left, _RELEASE_RETRY))
        return True

    def _released(self, deadline: float = math.inf) -> bool:
        self._attention.clear()
        self._rebalancer.release_idle(deadline)
        return not self._session.held()

    def _outlive(self) -> None:
        """Leave the group, and keep the locks of what still runs until it has ended."""
        for held in self._session.held():
            since, head = held.owned.handling_since, held.owned.messages.head
            held.log.error(
                "closed before the queue could be released; it stays locked until its handler ends",
                offset=head.queue_offset if head else None,
                key=head.sharding_key if head else None,
                handler_running_seconds=None if since is None else round(now() - since, 1),
            )
        self._client.heartbeat.unregister_consumer(self.group)
        self._registered = False
        name = f"orderly-closing-{self.group}"
        threading.Thread(target=self._end_later, name=name, daemon=True).start()

    def _end_later(self) -> None:
        while not self._released():
            self._attention.wait(_RELEASE_RETRY)
        self._stop_parts()

    def _stop_parts(self) -> None:
        self._puller.close()
        self._worker.close()
        for loop in (self._rounds, self._locks, self._offsets):
            loop.stop()
        if self._registered:  # not the twin's membership in a shared client
            self._client.heartbeat.unregister_consumer(self.group)
        if self._owns_client:
            self._client.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the consumer is closed, at most `timeout` seconds; returns whether it is."""
        return self._closed.wait(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --- questions -----------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """This member's id, new at every start: "ip@pid#random"."""
        return self._client.client_id

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The subscribed topics' queues held and locked at this moment, sorted.

        Without those being given up, and without the group's own retry topic.
        """
        return tuple(
            held.queue
            for held in self._session.held()
            if held.owned.dropped is None and not held.queue.topic.startswith(RETRY_PREFIX)
        )

    # --- wiring --------------------------------------------------------------------------------

    def _require(self, *states: State) -> None:
        if self.state not in states:
            raise LifecycleError(
                f"the consumer of group {self.group!r} is {self.state}; make a new one"
            )

    def _on_attention(self) -> None:
        self._attention.set()
        self._rounds.wake()

    def _again(self, seconds: float) -> None:
        self._rounds.wake_within(seconds)

    def _renew_again(self, seconds: float) -> None:
        self._locks.wake_within(seconds)

    def _reopen(self, held: Held) -> None:
        self._puller.reopen(held)


def _check_handler(handler: object) -> None:
    if not callable(handler):
        raise ConfigError(f"the handler must be callable, not {type(handler).__name__}")
    call = getattr(handler, "__call__", None)  # noqa: B004 - an instance may have an async one
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
        raise NotAvailableYet("async handlers are not available yet; pass a plain function")


def _version() -> int:
    """A subscription's version: the later one wins at the broker (milliseconds, as Java)."""
    return int(time.time() * 1000)
