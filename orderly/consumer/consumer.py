"""The public ordered consumer: subscriptions, controls and reports.

`runtime` creates its parts; each part has a file of its own beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Self

from orderly.client import Client, preflight
from orderly.client.dialogues import performer
from orderly.client.state_topics import StateTopics
from orderly.clock import now
from orderly.config import ConsumerConfig, check_function, check_group, check_topic
from orderly.config.arguments import (
    check_arguments,
    check_count,
    check_flag,
    check_given,
    check_timeout,
    is_number,
)
from orderly.config.fields import given
from orderly.consumer.health import Health
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.introspection import held_queues
from orderly.consumer.local_offsets import LocalOffsets, broadcasting_performer
from orderly.consumer.runtime import ConsumerRuntime, Lifecycle, State
from orderly.consumer.session import Session, sharding_key
from orderly.consumer.statistics import TopicStatistics
from orderly.consumer.topic_handlers import Handlers, each_of, handler_of
from orderly.errors import ConfigError, LifecycleError
from orderly.interruptions import Shielded, in_thread_of_its_own, shielded, to_its_end
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.allocation import Allocation, averagely
from orderly.ordering.context import AsyncHandler, Handler
from orderly.ordering.explain import Explanation
from orderly.ordering.explain_keys import KeyExplanation
from orderly.protocol.heartbeat import BY_SQL, Subscription
from orderly.protocol.parked_key import ParkedKey
from orderly.signals import LOOK, Noted, heard

if TYPE_CHECKING:
    from orderly.processes.handler import ProcessHandler


class OrderlyConsumer:
    """Consumes topics in order, one message of a queue or a key at a time, under the queue's lock.

    Thread-safe. Delivery is at least once: after a crash or a lost lock a queue starts again from
    its committed offset. With order="key" it leaves out the messages that are on record as finished
    ahead.

        def handle(messages, context):
            for message in messages:
                ship(message.sharding_key, message.body)
            return Ack()

        consumer = OrderlyConsumer("shipping", handle, namesrv="localhost:9876")
        with consumer.subscribe("orders"):  # starts it, and closes it at the end
            consumer.wait()

    In an asyncio program `async with consumer:` or `await consumer.run()` do the same, and a
    handler that is `async def` runs on that program's event loop.

    Args:
        group: the consumer group; its members share the queues. 1-120 characters of
            `%|a-zA-Z0-9_-`.
        handler: a plain function or an `async def`, called with (messages, context). It returns an
            outcome (`Ack()`, `Suspend(5)`, `Fail("why")`, `Park("why")`, ...) or one of Java's
            ConsumeResults. An exception, None or anything else is a failure: the queue, or with
            order="key" only that key, waits, and the messages come again. You can also pass a
            mapping of topics to such functions, all plain or all async: then these topics are
            subscribed, and no others.
        namesrv: "host:port;host:port"; empty: the environment's ORDERLY_NAMESRV.
        config: further settings.
        client: a running Client to share; otherwise the consumer has its own.
        allocate: decides which member gets which queues: one of `orderly.ordering.allocation`, or a
            function of (my client id, sorted queues, sorted client ids). All members must use the
            same one.
        hooks: called around each call of the handler, and as queues come and go.
        key: with order="key" only: a function that returns what a message is ordered by, anything
            hashable, None included. Default: the sharding key. It runs on the thread that reads all
            replies of a broker, so it must be pure, take microseconds and never ask a broker. If it
            raises an error, the queue waits before the message, and `explain` says so.

    Raises:
        ConfigError: a bad group name, address or setting, a handler that is not callable, `key`
            without order="key", or a handler that parks keys without it.
        NotAvailableYet: a setting that this release does not implement.
    """

    def __init__(
        self,
        group: str,
        handler: Handler | AsyncHandler | Handlers,
        *,
        namesrv: str = "",
        config: ConsumerConfig | None = None,
        client: Client | None = None,
        allocate: Allocation = averagely,
        hooks: ConsumerHooks | None = None,
        key: Callable[[ReceivedMessage], Hashable] = sharding_key,
    ) -> None:
        check_group(group)
        check_function("key", key)
        check_function("allocate", allocate)
        check_given("client", client, Client)
        check_given("hooks", hooks, ConsumerHooks, "a ConsumerHooks")
        if client is not None and namesrv:
            raise ConfigError("pass namesrv or client, not both: a client has its name servers")
        self.group = group
        self.config = given(ConsumerConfig, config)
        check_arguments("key", key, "message")
        check_arguments("allocate", allocate, "client_id", "queues", "members")
        check_key(self.config, key)
        handler, self._topics = handler_of(handler)
        for each in each_of(handler):
            check_handler(self.config, each)
        dry_run = getattr(handler, "dry_run", False) is True
        self._client = client or Client(namesrv=namesrv)
        group_name = check_group(group, self._client.config.namespace)
        self._session, offsets = new_session(
            group_name,
            self._client,
            self.config,
            hooks or ConsumerHooks(),
            key,
        )
        state_topics = new_state_topics(self._session)
        # Of its class: a handler of the program's may have any attribute that it is asked for.
        listeners: list[Any] = [
            each for each in each_of(handler) if hasattr(type(each), "failing_for")
        ]
        self._session.failing_for = lambda: max(
            (listener.failing_for(group_name) for listener in listeners), default=0.0
        )
        owned = [] if offsets is None else [offsets.close]
        processes: ProcessHandler | None = None
        if self.config.executor == "process":
            handler, processes = _in_processes(handler, self._session.group)
            owned.append(processes.close)
        if client is None:
            owned.append(self._client.close)
        self._runtime = ConsumerRuntime(
            self._session,
            handler,
            allocate,
            state_topics,
            dry_run=dry_run,
            kill_call=None if processes is None else processes.kill_call,
        )
        self._lifecycle = Lifecycle(
            self._session,
            self._runtime,
            state_topics=state_topics,
            offsets=offsets,
            owned=tuple(owned),
            processes=processes,
        )
        for topic in self._topics:
            self.subscribe(topic)

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Consume `topic`; before the start, or while running. Returns the consumer itself.

        Args:
            topic: must exist when the consumer starts. With a handler for each topic, it must be
                one of these topics; the call then only chooses which of its messages you want.
            tags: "*", or "A || B": other messages are skipped and count as done. If the topic
                is subscribed already, the new tags replace the old ones at once, and its queues are
                taken again.
            sql: instead of tags, a condition on properties (SQL92, as "amount > 100 AND kind =
                'paid'"); the broker must have enablePropertyFilter=true.

        Raises:
            ConfigError: a bad topic name, tag expression or condition; a topic that cannot be read,
                or has no handler.
            TopicNotFound: running, and no name server knows the topic.
            LifecycleError: after close.
        """
        if self._topics and topic not in self._topics:
            raise ConfigError(
                f"there is no handler for topic {topic!r}, only for {', '.join(self._topics)}: give"
                " the consumer one"
            )
        subscription = subscription_of(self._topic(topic), tags, sql)
        self._client.connections.check_process()
        shielded(partial(self._subscribe, subscription))
        return self

    def _subscribe(self, subscription: Subscription) -> None:
        real = subscription.topic
        with self._lifecycle.lock:
            self._lifecycle.require(State.CREATED, State.RUNNING)
            if self._lifecycle.state is State.RUNNING:
                self._lifecycle.admit(preflight.check_topic(self._client, real))
                group = self._session.group
                self._lifecycle.admit(preflight.check_filter(self._client, group, subscription))
                self._lifecycle.ensure_state(real)
                self._lifecycle.look_around(real)
            self._session.subscriptions = {**self._session.subscriptions, real: subscription}
            self._announce()

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming `topic`: its queues are saved, released and unlocked. Returns at once.

        Raises:
            ConfigError: a bad topic name.
        """
        real = self._topic(topic)
        self._client.connections.check_process()
        shielded(partial(self._unsubscribe, real))

    def _unsubscribe(self, topic: str) -> None:
        with self._lifecycle.lock:
            rest = {**self._session.subscriptions}
            rest.pop(topic, None)
            self._session.subscriptions = rest
            self._announce()

    def _announce(self) -> None:
        self._session.renew_version()
        if self._lifecycle.state is State.RUNNING:
            self._runtime.releaser.drop_outdated()
            self._client.heartbeat.heartbeat_now()
            self._runtime.rounds.wake()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Join the group and begin to consume. Returns as soon as the first rebalance is requested.

        Raises:
            LifecycleError: started before, or closed, or the client has a consumer of this group
                already.
            TopicNotFound: a subscribed topic does not exist.
            ConfigError: no topic is subscribed; a topic that cannot be read; a filter that the
                broker cannot read; a group that is not allowed to consume, or whose members consume
                in another way.
            OffsetFileError: broadcasting, and the file of its offsets is damaged or in use.
            NameServerUnavailable: no name server answered. Nothing is left running after any error.
        """
        self._client.connections.check_process()
        starting = Shielded(self._lifecycle.start)
        try:
            starting.result()
            return self  # noqa: TRY300 - an interruption can come here, too
        except BaseException:
            starting.undo(self._lifecycle.close)
            raise

    def close(self) -> None:
        """Stop cleanly: handlers end, offsets are saved, then all locks are released at once.

        Waits up to `close_timeout` seconds for running handlers. If a handler still runs then, its
        queue stays locked, because no other member may start beside it. The lock is renewed in the
        background until the handler ends; the offset is saved, and the log names the queue. If the
        process ends first, the broker frees the queue within 60 s. A handler that never returns
        keeps its queue as long as the process lives: then end the process. A broker that does not
        answer is given 5 seconds once no handler runs; the log names what was not given back.
        Idempotent; returns at once while another thread is closing. If it is interrupted, it goes
        on in the background.

        Raises:
            LifecycleError: called by a handler, which would wait for itself, or on the event loop
                that runs async handlers (`aclose` is for that).
        """
        self._lifecycle.close()

    def wait(self, timeout: float | None = None, *, signals: bool = True) -> bool:
        """Block until the consumer is closed, at most `timeout` seconds; returns whether it is.

        SIGTERM and SIGINT (Ctrl-C) end the wait: every consumer of the process is closed, as by
        `close`, and the method returns True. A second signal ends the process at once. This works
        only in the main thread, and only if your program has not installed handlers of its own for
        these signals; those stay. Afterwards the signals work as before.

        Args:
            timeout: seconds; None: as long as it takes.
            signals: False: leave the signals alone.

        Raises:
            LifecycleError: the consumer is not started, or its event loop was closed, so that no
                handler can run any more. Or this thread runs an event loop, which the wait would
                stop.
            ConfigError: `timeout` is neither None nor a number of seconds, or `signals` is not a
                bool.
        """
        check_timeout("timeout", timeout)
        check_flag("signals", signals)
        self._client.connections.check_process()
        _refuse_in_loop()
        return self._lifecycle.wait(timeout, signals=signals)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --- life in an asyncio program ------------------------------------------------------------

    async def aclose(self) -> None:
        """`close` for an asyncio program: meanwhile the loop and its handlers go on.

        Returns once the consumer is closed, also where somebody else closes it. If the task is
        cancelled meanwhile, it waits for that, too, and raises CancelledError then: at most for
        `close_timeout` and some seconds.

        Raises:
            LifecycleError: awaited by a handler, which would wait for itself.
        """
        if not self._client.connections.foreign:
            self._lifecycle.refuse_handlers()
        await to_its_end(self._lifecycle.close_fully, f"orderly-closing-{self.group}")

    async def run(self, *, signals: bool = True) -> None:
        """Start, consume until this task is cancelled or the consumer is closed, and close.

        `async def` handlers run on the caller's event loop. If that is the main thread's loop,
        signals end the method as they end `wait`. Signal handlers that the loop or your program has
        installed stay. Under `asyncio.run`, Ctrl-C cancels the task, which also closes this
        consumer; then `asyncio.run` raises KeyboardInterrupt, as it does for every program. It
        never returns before the consumer is closed, however often the task is cancelled.

        Args:
            signals: False: leave the signals alone.

        Raises:
            ConfigError: `signals` is not a bool.
            OrderlyError: as `start`, and as `wait`.
        """
        check_flag("signals", signals)
        with heard(signals) as received:
            try:
                async with self:
                    await self._until_closed(received)
            finally:
                await self._close_on(received())
        await self._close_on(received())  # it may have come while the handlers were put back

    async def _until_closed(self, received: Noted) -> None:
        wait = partial(self._lifecycle.wait, None, signals=False)
        closed = in_thread_of_its_own(wait, f"orderly-waiting-{self.group}")
        try:
            while not closed.done():
                # The loop wakes for each look, too: a signal right before its own wait is heard.
                await asyncio.wait({closed}, timeout=LOOK)
                await self._close_on(received())
            closed.result()  # raises what `wait` does
        finally:
            closed.cancel()

    async def _close_on(self, received: Signals | None) -> None:
        if received is not None:
            close = partial(self._lifecycle.close_on, received)
            await to_its_end(close, f"orderly-ending-{self.group}")

    async def __aenter__(self) -> Self:
        """Start; handlers that are `async def` run on this event loop, where their engines live."""
        self._client.connections.check_process()
        start = partial(self._lifecycle.start, asyncio.get_running_loop())
        try:
            await to_its_end(start, f"orderly-starting-{self.group}")
        except asyncio.CancelledError:
            await self.aclose()  # it is started all the same
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    # --- steering ------------------------------------------------------------------------------

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop pulling and calling the handler; running calls end, locks and membership are kept.

        Args:
            queues: None: those of `assignment`. They stay paused across a rebalance, even if they
                are not held now.

        Raises:
            ConfigError: something other than queues.
        """
        self._client.connections.check_process()
        chosen = self.assignment if queues is None else queues
        shielded(partial(self._runtime.control.pause, chosen))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """End a pause; None: of every queue. Errors as `pause`."""
        self._client.connections.check_process()
        chosen = self._session.paused if queues is None else queues
        shielded(partial(self._runtime.control.resume, chosen))

    def pause_key(self, key: Hashable) -> None:
        """With order="key": stop calling the handler for one key; the other keys go on.

        A running call ends normally. The key's messages wait in order, mostly without their bodies,
        and hold the committed offset back, as after a failure; no attempt is counted. The key stays
        paused across a rebalance, even if no message of it is here now, until you resume it or this
        process ends. Other members do not know about the pause. An operator can still park the key,
        or drop what is parked of it (`orderly parked`), because no handler is called for that; a
        release waits until you resume the key. Of all paused keys together, 100,000 messages of a
        queue can wait; then nothing more of that queue is pulled (`explain()` and `health()` say
        so).

        Args:
            key: what the messages are ordered by: the sharding key (a str), or what `key=` returns.
                None: messages without a key. It applies to all topics.

        Raises:
            ConfigError: the order is by queue, or the argument is not a key.
        """
        self._client.connections.check_process()
        shielded(partial(self._runtime.control.pause_key, self._key(key)))

    def resume_key(self, key: Hashable) -> None:
        """Let a paused key go on, with its next message. Errors as `pause_key`."""
        self._client.connections.check_process()
        shielded(partial(self._runtime.control.resume_key, self._key(key)))

    def _key(self, key: Hashable) -> Hashable:
        if not self.config.by_key:
            raise ConfigError(
                "only a consumer with order='key' can pause a key: pass"
                " ConsumerConfig(order='key'), or pause the key's queue"
            )
        own = self._session.key is not sharding_key
        if not (own or key is None or isinstance(key, str)) or not isinstance(key, Hashable):
            raise ConfigError(
                "key must be what messages are ordered by: their sharding key, a str or None"
                f"{', or what your key function returns' if own else ''}, not {type(key).__name__}"
            )
        return key

    def seek(self, queue: MessageQueue, position: int | str | datetime) -> int:
        """Go on from another offset of a queue held here. Returns the offset.

        Cached messages are discarded, and the result of a handler that runs now no longer moves the
        offset. The new offset is committed; then the queue is locked and read again. The method
        asks the broker for the queue's range, and returns before the first message comes.

        Args:
            queue: one of `assignment`.
            position: an offset, "first", "last", an ISO 8601 time or a datetime.

        Raises:
            ConfigError: an offset that the broker does not have, or something that is not a
                position.
            LifecycleError: the queue is not held, or is being given up.
        """
        self._client.connections.check_process()
        return shielded(partial(self._runtime.control.seek, queue, position))

    # --- questions -----------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state of the consumer's life cycle: created, running, closing, failed, closed."""
        self._client.connections.check_process()
        return self._lifecycle.state

    @property
    def client_id(self) -> str:
        """This member's id, new at every start: "ip@pid#random"."""
        self._client.connections.check_process()
        return self._client.client_id

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The subscribed topics' queues held and locked at this moment, sorted.

        Queues that are being given up are left out, and so is the group's own retry topic. Names
        are the broker's: with the client's namespace, if it has one.
        """
        self._client.connections.check_process()
        return held_queues(self._session)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused, held or not."""
        self._client.connections.check_process()
        return self._session.paused

    @property
    def paused_keys(self) -> frozenset[Hashable]:
        """The keys that are paused, whether or not messages of them are here."""
        self._client.connections.check_process()
        return frozenset(self._session.paused_keys)

    def explain(self) -> tuple[Explanation, ...]:
        """Say what each queue of the subscribed topics is doing or waiting for, sorted by queue.

        Examples: not owned, not locked, lock lost, being given up, paused, handler running for n s,
        suspended for another n s, flow-controlled, pulling, empty. `Why` has all of them. Does not
        ask a broker.
        """
        self._client.connections.check_process()
        return shielded(self._runtime.inspector.explain)

    def explain_keys(self, limit: int = 20) -> tuple[KeyExplanation, ...]:
        """With order="key": which keys of the queues held here are unfinished, and why.

        Examples: suspended for another n s, handler running for n s, waiting for its turn. `KeyWhy`
        has all of them. Does not ask a broker.

        Args:
            limit: at most this many keys of each queue, those with the lowest offsets.

        Raises:
            ConfigError: a limit below 1.
        """
        check_count("limit", limit, 1)
        self._client.connections.check_process()
        return shielded(partial(self._runtime.inspector.explain_keys, limit))

    def parked(self) -> dict[MessageQueue, tuple[ParkedKey, ...]]:
        """With order="key": the parked keys in the queues held here, sorted. Does not ask a broker.

        Their messages wait in the group's park topic, and later ones follow them there, until
        somebody releases or drops the key (`orderly parked`). A key is listed as soon as it is
        on record, so `orderly parked list` shows it, too.
        """
        self._client.connections.check_process()
        return shielded(self._runtime.inspector.parked)

    def health(self) -> Health:
        """For probes: whether this member is well, and why not. Asks no broker.

        It is ready once it holds its queues, and a pull of each has succeeded. It stays ready while
        pulls succeed within their usual time (30 s), and what waits for a handler gets one. It is
        not live if it failed, if a handler hangs, or if nothing that waits gets a handler for twice
        `lock_trust`. `Health` says more.
        """
        self._client.connections.check_process()
        return shielded(lambda: self._runtime.inspector.health(self.state.value))

    def statistics(self, topic: str) -> TopicStatistics:
        """How fast a topic is consumed: calls, messages and failures a second, times in seconds.

        Raises:
            ConfigError: a bad topic name.
        """
        self._client.connections.check_process()
        real = self._topic(topic)
        return shielded(lambda: self._session.statistics.of(real, now()))

    def _topic(self, name: str) -> str:
        """The broker's name of a topic: with the client's namespace."""
        return check_topic(name, self._client.config.namespace)


def _refuse_in_loop() -> None:
    """Raise LifecycleError on a thread whose event loop a wait would stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise LifecycleError(
        "wait() would stop this thread's event loop, and all that runs on it: use `await"
        " consumer.run()`, or `async with consumer:`"
    )


# --- what a consumer is made of before it starts --------------------------------------------------
# Checked arguments, and its shared state.


def check_key(config: ConsumerConfig, key: Callable[[ReceivedMessage], Hashable]) -> None:
    """Refuse a key function that would decide nothing.

    Raises:
        ConfigError: order by queue.
    """
    if key is not sharding_key and not config.by_key:
        raise ConfigError(
            "key= has no effect with order='queue': pass"
            " config=ConsumerConfig(order='key'), or leave key out"
        )


def check_handler(config: ConsumerConfig, handler: object) -> None:
    """Refuse a handler, such as a Listener, whose settings contradict the consumer's.

    Args:
        config: the consumer's.
        handler: says with attributes that it `parks` keys, that it `judges` when a message is
            given up, and for how long its retries go on with the queue's lock `unrenewed`.

    Raises:
        ConfigError: no keys to park; a limit of tries beside a verdict; a lock that is trusted for
            a shorter time.
    """
    if getattr(handler, "parks", False) is True and (not config.by_key or config.broadcasting):
        raise ConfigError(
            "this handler parks keys, which needs ConsumerConfig(order='key') and"
            " model='clustering': set both, or give the listener another on_poison="
        )
    if getattr(handler, "judges", False) is True and config.max_reconsume_times is not None:
        raise ConfigError(
            "this listener decides itself when to give up a message, and gives up none in an"
            " outage: leave max_reconsume_times out, or pass poison=None to the listener"
        )
    unrenewed = getattr(handler, "unrenewed", None)
    trusted = config.broadcasting or not is_number(unrenewed) or unrenewed <= config.lock_trust
    if not trusted:
        raise ConfigError(
            f"this listener retries for {unrenewed:g} s, but the consumer trusts a queue's lock for"
            f" {config.lock_trust:g} s: lower max_seconds of its Retry, or pass extend=True to the"
            " Retry"
        )


def new_session(
    group: str,
    client: Client,
    config: ConsumerConfig,
    hooks: ConsumerHooks,
    key: Callable[[ReceivedMessage], Hashable],
) -> tuple[Session, LocalOffsets | None]:
    """The shared state, and a broadcasting member's own offsets."""
    if not config.broadcasting:
        perform = performer(group, client.brokers, client.config.record_secrets)
        return Session(group, client, config, perform, hooks, key=key), None
    offsets = LocalOffsets(Path(config.offsets_folder), group, config.instance)
    perform = broadcasting_performer(group, offsets, client.brokers)
    together = offsets.put_all
    session = Session(group, client, config, perform, hooks, key=key, store_together=together)
    return session, offsets


def new_state_topics(session: Session) -> StateTopics | None:
    """Where what is finished ahead is remembered; a broadcasting member remembers nothing."""
    config = session.config
    if not config.by_key or config.broadcasting:
        return None
    return StateTopics(session.client, session.group, config.create_state_topics, session.log)


def _in_processes(
    handler: Handler | AsyncHandler, group: str
) -> tuple[Handler | AsyncHandler, ProcessHandler]:
    """Return a handler whose work is done by worker processes, and what runs these."""
    from orderly.processes.handler import ProcessHandler  # noqa: PLC0415  seldom needed

    processes = ProcessHandler(getattr(handler, "work", handler), group)
    return handler.through(processes) if hasattr(handler, "through") else processes, processes


def subscription_of(topic: str, tags: str, sql: str | None) -> Subscription:
    """Return what is to be consumed of a topic.

    Raises:
        ConfigError: tags and a condition, or one of them is none.
    """
    if sql is not None:
        if tags != "*":
            raise ConfigError("pass tags or sql, not both")
        if not isinstance(sql, str) or not sql.strip():
            raise ConfigError(f"sql must be a condition such as 'amount > 100', not {sql!r}")
        return Subscription(topic, sql, expression_type=BY_SQL)
    if not isinstance(tags, str):
        raise ConfigError(f"tags must be a str such as '*' or 'A || B', not {tags!r}")
    return Subscription.from_expression(topic, tags, 0)
