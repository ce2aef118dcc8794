"""The public ordered consumer: its life from created over running to closed, and its controls.

It puts the parts together (`loops`); each part lives in a file of its own beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

from orderly.client import Client
from orderly.client.peer_requests import GroupAnswers
from orderly.config import ConsumerConfig, check_function, check_group, check_topic
from orderly.consumer.health import Health
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.insight import held_queues
from orderly.consumer.local_offsets import LocalOffsets
from orderly.consumer.loops import Loops
from orderly.consumer.perform import broadcasting_performer, performer
from orderly.consumer.preflight import check_filter, check_readable, check_start
from orderly.consumer.session import Session, now
from orderly.consumer.statistics import TopicStatistics
from orderly.errors import ConfigError, LifecycleError
from orderly.model import MessageQueue
from orderly.namespace import wrap
from orderly.ordering.allocation import Allocation, averagely
from orderly.ordering.context import Handler
from orderly.ordering.explain import Explanation
from orderly.ordering.start import RETRY_PREFIX
from orderly.protocol.heartbeat import Subscription


class State(StrEnum):
    """Where a consumer is in its life."""

    CREATED = "created"
    RUNNING = "running"
    CLOSING = "closing"
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
        allocate: who gets which queues: one of `orderly.ordering.allocation`, or a function of
            (my client id, sorted queues, sorted client ids). All members must use the same one.
        hooks: called around each call of the handler, and as queues come and go.

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
        allocate: Allocation = averagely,
        hooks: ConsumerHooks | None = None,
    ) -> None:
        check_group(group)
        check_function("the handler", handler)
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
        self._offsets: LocalOffsets | None = None
        real_group = self._real(group)
        perform = performer(real_group, self._client.brokers)
        if self.config.broadcasting:
            folder = Path(self.config.offsets_folder)
            self._offsets = LocalOffsets(folder, real_group, self.config.instance)
            perform = broadcasting_performer(self._offsets, self._client.brokers)
        self._session = Session(
            real_group,
            self._client,
            self.config,
            perform,
            hooks or ConsumerHooks(),
            store_together=None if self._offsets is None else self._offsets.put_all,
        )
        self._loops = Loops(self._session, handler, allocate)

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Consume `topic`; before the start, or while running. Returns the consumer itself.

        Args:
            topic: must exist by the time of the start.
            tags: "*", or "A || B": other messages are passed over and count as done. For a topic
                subscribed before they replace the old ones at once; its queues are taken anew.
            sql: instead of tags, a condition on properties (SQL92, as "amount > 100 AND kind =
                'paid'"); the broker must have enablePropertyFilter=true.

        Raises:
            ConfigError: a bad topic name, tag expression or condition; a topic that may not be
                read.
            TopicNotFound: running, and no name server knows the topic.
            LifecycleError: after close.
        """
        subscription = _subscription(check_topic(self._real(topic)), tags, sql)
        real = subscription.topic
        self._client.connections.check_process()
        with self._lifecycle:
            self._require(State.CREATED, State.RUNNING)
            if self.state is State.RUNNING:
                check_readable(self._client.routes.get(real))
                check_filter(self._client, self._session.group, subscription, self._session.log)
            self._session.subscriptions = {**self._session.subscriptions, real: subscription}
            self._announce()
        return self

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming `topic`: its queues are saved, released and unlocked. Returns at once."""
        self._client.connections.check_process()
        with self._lifecycle:
            rest = {**self._session.subscriptions}
            rest.pop(self._real(topic), None)
            self._session.subscriptions = rest
            self._announce()

    def _announce(self) -> None:
        self._session.renew_version()
        if self.state is State.RUNNING:
            self._loops.releaser.drop_outdated()
            self._client.heartbeat.heartbeat_now()
            self._loops.rounds.wake()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Join the group and begin to consume; returns once the first round has been asked for.

        Raises:
            LifecycleError: started before, closed, or the group twice in one client.
            TopicNotFound: a subscribed topic does not exist.
            ConfigError: a topic that may not be read, a filter the broker cannot read, a group
                that may not consume, or whose members consume in another way.
            OffsetFileError: broadcasting, and the file of its offsets is damaged or in use.
            NameServerUnavailable: no name server answered. Nothing is left running after any error.
        """
        self._client.connections.check_process()
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
        check_start(client, session.group, session.subscriptions.values(), self.config, session.log)
        if self._offsets is not None:
            self._offsets.open()
        else:
            retry_topic = RETRY_PREFIX + session.group
            session.subscriptions = {
                **session.subscriptions,
                retry_topic: Subscription.from_expression(retry_topic, "*", session.version),
            }
        client.heartbeat.register_consumer(
            session.group,
            subscriptions=session.announced,
            on_members_changed=self._loops.rounds.wake,
            consume_from=self.config.consume_from,
            broadcasting=self.config.broadcasting,
            answers=self._answers(),
        )
        self._registered = True
        client.heartbeat.heartbeat_now()
        self._loops.start()
        session.log.info("consumer started", topics=sorted(session.subscriptions))

    def _answers(self) -> GroupAnswers:
        loops = self._loops
        return GroupAnswers(
            running_info=loops.insight.running_info,
            reset_offsets=loops.control.reset,
            offsets=loops.control.offsets,
            consume_directly=loops.direct.consume,
        )

    def close(self) -> None:
        """Stop cleanly: handlers end, offsets are saved, then all locks are released at once.

        Waits up to `close_timeout` seconds for running handlers. A queue whose handler still runs
        then stays locked, and the lock is renewed in the background until the handler ends, for
        nobody may start beside it; its offset is saved and the log names it. If the process ends
        before, the broker frees the queue within 60 s. Idempotent; while another thread is closing
        it returns at once.

        Raises:
            LifecycleError: called by a handler, which would wait for itself.
        """
        if self._client.connections.foreign:  # a forked child: nothing here is its own
            return
        if self._loops.worker.inside:
            raise LifecycleError("close() was called by a handler; call it from another thread")
        with self._lifecycle:
            if self.state in (State.CLOSING, State.CLOSED):
                return
            running = self.state is State.RUNNING
            self.state = State.CLOSING
        # Not under the lock: a hook that calls the consumer meanwhile must not wait for ever.
        if not running or self._loops.wind_down(self.config.close_timeout):
            self._stop_parts()
        else:
            self._outlive()
        self._session.outlook = {}  # what nobody looks after any more is not explained either
        self.state = State.CLOSED
        self._closed.set()

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
        self._client.heartbeat.unregister_consumer(self._session.group)
        self._registered = False
        name = f"orderly-closing-{self.group}"
        threading.Thread(target=self._end_later, name=name, daemon=True).start()

    def _end_later(self) -> None:
        self._loops.wait_released()
        self._stop_parts()

    def _stop_parts(self) -> None:
        self._loops.stop()
        if self._registered:  # not the twin's membership in a shared client
            self._client.heartbeat.unregister_consumer(self._session.group)
        if self._offsets is not None:
            self._offsets.close()
        if self._owns_client:
            self._client.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the consumer is closed, at most `timeout` seconds; returns whether it is."""
        return self._closed.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --- steering ------------------------------------------------------------------------------

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop pulling and handing out; a running handler ends, locks and membership are kept.

        Args:
            queues: None: those of `assignment`. They stay paused over a rebalance, also if they
                are not held now.
        """
        self._client.connections.check_process()
        self._loops.control.pause(self.assignment if queues is None else queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """End a pause; None: of every queue."""
        self._client.connections.check_process()
        self._loops.control.resume(self._session.paused if queues is None else queues)

    def seek(self, queue: MessageQueue, position: int | str | datetime) -> int:
        """Go on from another offset of a queue held here. Returns the offset.

        What is cached is discarded; the result of a handler that runs now no longer moves the
        offset. The new offset is committed, and the queue is locked and read anew. Asks the broker
        for its range; returns before the first message comes.

        Args:
            queue: one of `assignment`.
            position: an offset, "first", "last", an ISO 8601 time or a datetime.

        Raises:
            ConfigError: an offset outside what the broker has, or no position at all.
            LifecycleError: the queue is not held, or is being given up.
        """
        self._client.connections.check_process()
        return self._loops.control.seek(queue, position)

    # --- questions -----------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """This member's id, new at every start: "ip@pid#random"."""
        return self._client.client_id

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The subscribed topics' queues held and locked at this moment, sorted.

        Without those being given up, and without the group's own retry topic. Named as at the
        broker: with the client's namespace, if it has one.
        """
        return held_queues(self._session)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused, held or not."""
        return self._session.paused

    def explain(self) -> tuple[Explanation, ...]:
        """Say for every queue of the subscribed topics why it is where it is, sorted by queue.

        Not owned, not locked, lock lost, being given up, paused, handler running for n s, suspended
        for another n s, flow-controlled, pulling, empty: see `Why`. Asks no broker.
        """
        return self._loops.insight.explain()

    def health(self) -> Health:
        """For probes: live unless failed or hanging; ready once all that is ours is held."""
        return self._loops.insight.health(self.state.value)

    def statistics(self, topic: str) -> TopicStatistics:
        """How fast a topic is consumed: calls, messages and failures a second, times in seconds."""
        return self._session.statistics.of(self._real(topic), now())

    def _real(self, name: str) -> str:
        """The broker's name of a topic or group: with the client's namespace."""
        return wrap(self._client.config.namespace, name)

    def _require(self, *states: State) -> None:
        if self.state not in states:
            raise LifecycleError(
                f"the consumer of group {self.group!r} is {self.state}; make a new one"
            )


def _subscription(topic: str, tags: str, sql: str | None) -> Subscription:
    if sql is not None:
        if tags != "*":
            raise ConfigError("pass tags or sql, not both")
        if not isinstance(sql, str) or not sql.strip():
            raise ConfigError(f"sql must be a condition such as 'amount > 100', not {sql!r}")
        return Subscription(topic, sql, expression_type="SQL92")
    if not isinstance(tags, str):
        raise ConfigError(f"tags must be a str such as '*' or 'A || B', not {tags!r}")
    return Subscription.from_expression(topic, tags, 0)
