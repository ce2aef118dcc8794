"""The producer: its life cycle, the ways to send, and how a message reaches its queue's sender."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from orderly.at_exit import FOR_SENDS, Ending
from orderly.client import Client
from orderly.config import ProducerConfig, check_group, check_seconds, check_topic
from orderly.config.arguments import check_given, check_timeout, is_int
from orderly.config.fields import given
from orderly.errors import ConfigError, LifecycleError
from orderly.interruptions import Latch, Shielded, in_thread_of_its_own, shielded
from orderly.log import get_logger
from orderly.message import Message
from orderly.model import MessageQueue, SendResult
from orderly.namespace import wrap
from orderly.ordering.outbox import OutboxRules
from orderly.producer.future import SendFuture, SyncResult
from orderly.producer.pending import (
    MessageIds,
    PendingLimit,
    PendingSend,
    batch_size,
    check_message,
    compressed,
    in_callback,
    properties_text,
    refuse_in_callback,
)
from orderly.producer.sender import QueueSender, SendCommands
from orderly.producer.topics import Topics, TopicTypes
from orderly.selectors.choice import (
    KEYLESS_LANE,
    Queues,
    RoundRobin,
    Selector,
    check_selector,
    choose,
    lane_of,
    needs_key,
)
from orderly.selectors.keyed import hash_mod

F = TypeVar("F", SendFuture, SyncResult)
_Turns = WeakValueDictionary[str, asyncio.Lock]

_CONNECTORS = 16  # threads that may wait for connections at once; started only when needed
_HURRY = 0.1  # seconds between two looks at what lingers while somebody waits for all messages


class Dispatch:
    """The running parts of a producer. Thread-safe.

    Args:
        client: started.
        group: the producer group.
        config: settings.
        selector: for messages sent without one of their own.
        log: for events, bound to the group.
    """

    def __init__(
        self, client: Client, group: str, config: ProducerConfig, selector: Selector, log: Any
    ) -> None:
        # A broker that keeps silent must not cost the first message its time.
        types = TopicTypes(client.admin, config.send_timeout / 3, log)
        self.topics = Topics(client.routes, config.layout, log, types.check)
        self.room = PendingLimit(config.max_pending)
        self._client = client
        self._group = group
        self._config = config
        self._selector = check_selector(selector)
        self._log = log
        self._spread = RoundRobin()
        self._ids = MessageIds(client.client_id)
        self._executor = ThreadPoolExecutor(_CONNECTORS, thread_name_prefix="orderly-send")
        self._senders: dict[MessageQueue, QueueSender] = {}
        self._closed: LifecycleError | None = None

    def plan(
        self, message: Message, selector: Selector | None, arg: object
    ) -> tuple[Selector, str | None]:
        """Check a message; return the selector of its queue, and the lane that keeps its order.

        Raises:
            ConfigError: the message, or its key with this selector.
        """
        check_message(message, self._config.max_message_size)
        chosen = self._selector if selector is None else check_selector(selector)
        if message.sharding_key is None and arg is None and needs_key(chosen):
            chosen = self._spread  # no key: no order to keep, any queue will do
        return chosen, lane_of(chosen, message, arg)

    def accept(
        self,
        message: Message,
        selector: Selector | None,
        arg: object,
        timeout: float | None,
        future: F,
        *,
        queues: Queues | None = None,
    ) -> F:
        """Take a message over; its future gets the outcome.

        Args:
            message: what to send.
            selector: None: the producer's.
            arg: for the selector; None: the sharding key.
            timeout: seconds until the last attempt must have begun.
            future: gets the outcome. A SyncResult: the caller waits for it, and may read the reply
                itself.
            queues: of the topic. None: they may be waited for, and so may room in a full producer.

        Raises:
            OrderlyError: the message was not taken over.
        """
        limit = check_seconds(
            "timeout", self._config.delivery_timeout if timeout is None else timeout
        )
        chosen, lane = self.plan(message, selector, arg)
        deadline = time.monotonic() + limit
        entry = self._entry(message, lane, deadline, future)
        may_wait = queues is None and not in_callback()
        ordered = lane is not None
        queues = queues or self.topics.known(message.topic, ordered=ordered)
        if queues is None:
            queues = self.topics.queues(message.topic, ordered=ordered)
        sender = self._sender(choose(chosen, queues, message, arg))
        if not may_wait or self.room.wait_for_room(deadline - time.monotonic()):
            sender.add(entry)
        else:
            full = TimeoutError(f"{self._config.max_pending} messages are pending (max_pending)")
            shielded(lambda: sender.turn_away(entry, full))
        return future

    def oneway(self, message: Message) -> None:
        """Send a keyless message without asking what became of it; connects if need be.

        Raises:
            OrderlyError: it did not go out.
        """
        check_message(message, self._config.max_message_size)
        entry = self._entry(message, None, 0.0, SendFuture())
        queue = self._spread(self.topics.queues(message.topic, ordered=False), message, None)
        command = SendCommands(self._group, queue).make(
            [entry], int(time.time() * 1000), oneway=True
        )
        address = self._client.routes.address(queue)
        self._client.connections.get(address).send_oneway(command)

    def resume(self, lane: str, topic: str | None) -> None:
        """Open a lane in all queues, or in those of one topic."""
        for sender in tuple(self._senders.values()):
            if topic is None or sender.queue.topic == topic:
                sender.resume(lane)

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until no message is pending; meanwhile none waits for others to share its batch.

        Args:
            timeout: seconds; None: as long as it takes.

        Returns:
            False if the time-out came first.
        """
        if self._config.linger == 0:
            return self.room.wait_empty(timeout)
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            shielded(self._hurry)
            left = end - time.monotonic()
            if self.room.wait_empty(max(0.0, min(left, _HURRY))):
                return True
            if left <= _HURRY:
                return False

    def _hurry(self) -> None:
        for sender in tuple(self._senders.values()):
            sender.hurry()

    def close(self) -> None:
        """Fail what is not stored; later messages fail at once."""
        self._closed = LifecycleError("the producer was closed before the message was acknowledged")
        for sender in tuple(self._senders.values()):
            sender.close(self._closed)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _entry(
        self,
        message: Message,
        lane: str | None,
        deadline: float,
        future: SendFuture | SyncResult,
    ) -> PendingSend:
        message_id = self._ids.next()
        text = properties_text(message, message_id)
        body, sys_flag = compressed(message.body, self._config.compress_above)
        size = batch_size(body, text)
        return PendingSend(
            lane,
            size,
            sys_flag,
            deadline,
            urgent=isinstance(future, SyncResult),
            body=body,
            properties=text,
            message_id=message_id,
            future=future,
        )

    def _sender(self, queue: MessageQueue) -> QueueSender:
        sender = self._senders.get(queue)
        if sender is None:
            sender = self._senders.setdefault(queue, self._new_sender(queue))
            if self._closed is not None:  # it may have come too late to be closed
                sender.close(self._closed)
                raise LifecycleError("the producer is closed; make a new one")
        return sender

    def _new_sender(self, queue: MessageQueue) -> QueueSender:
        config = self._config
        rules = OutboxRules(
            retries=config.retries,
            retry_backoff=config.retry_backoff,
            hold_failed_key=config.hold_failed_key,
            batch_messages=config.batch_messages,
            batch_bytes=config.batch_bytes,
            linger=config.linger,
        )
        return QueueSender(
            self._client,
            self._executor,
            queue,
            self.room,
            group=self._group,
            rules=rules,
            send_timeout=config.send_timeout,
            log=self._log,
        )


# --- the public producer --------------------------------------------------------------------------


class OrderlyProducer:
    """Sends messages. Those of one sharding key are stored in the order in which you sent them.

    Thread-safe. The order is that of the calls: two threads that send the same key at the same
    moment have no order. Each queue has one request in flight; messages that gather meanwhile go
    out as a batch. A failed attempt is repeated, to the same queue. When a message fails for good,
    later messages of its key fail with PrecedingSendFailed until you call `resume` or
    `ProducerConfig.hold_failed_key` seconds pass; other keys go on. A message whose attempt timed
    out can be stored twice; such a copy is marked, and consumers skip it.

    Messages without a sharding key (and without `arg`) are spread over the queues and have no
    order, unless the selector is `single_queue` or one of your own.

        with OrderlyProducer(namesrv="localhost:9876") as producer:
            producer.send(Message("orders", b"created", sharding_key="order-1001"))

    In an asyncio program `async with OrderlyProducer() as producer:` and `await producer.asend()`.

    Args:
        group: the producer group, for the broker's statistics.
        namesrv: "host:port;host:port" of the name servers; not together with `client`.
        config: settings.
        client: a client to share; the producer starts it if necessary, and never closes it.
        selector: chooses the queue of a message, unless a call gives another selector.

    Raises:
        ConfigError: an invalid group or layout, or both `namesrv` and `client`.
    """

    def __init__(
        self,
        group: str = "orderly-producer",
        *,
        namesrv: str = "",
        config: ProducerConfig | None = None,
        client: Client | None = None,
        selector: Selector = hash_mod,
    ) -> None:
        check_given("client", client, Client)
        if client is not None and namesrv:
            raise ConfigError("pass namesrv or client, not both: a client has its name servers")
        self.group = check_group(group)
        self.config = given(ProducerConfig, config)
        check_selector(selector)
        self._owns_client = client is None
        self._client = client or Client(namesrv=namesrv)
        redacts = self._client.config.redacts
        self._log = get_logger("orderly.producer", group=group, redact=redacts)
        self._dispatch = Dispatch(self._client, group, self.config, selector, self._log)
        self._lifecycle = threading.Lock()
        self._started = False
        self._closed = False
        self._ended = Latch()
        self._ending = Ending(group, self._close_at_exit, self._name_left, last=True)
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()

    def start(self) -> Self:
        """Make the producer ready to send. Connections are opened when they are needed.

        Raises:
            LifecycleError: started or closed before, or the client has a producer of this group.
        """
        self._client.connections.check_process()
        starting = Shielded(self._begin)
        try:
            starting.result()
            return self  # noqa: TRY300 - an interruption can come here, too
        except BaseException:
            starting.undo(partial(self._close, 0))
            raise

    def _begin(self) -> None:
        with self._lifecycle:
            if self._started or self._closed:
                raise LifecycleError("a producer can be started only once; make a new one")
            self._client.start()
            self._client.heartbeat.register_producer(self.group)
            self._started = True
            self._ending.open()

    def close(self, timeout: float | None = 10.0) -> None:
        """Send what is pending, then end. Idempotent.

        Args:
            timeout: seconds to wait for pending messages. The ones left then fail with SendFailed,
                although one of them can be stored. None: as long as it takes.

        Raises:
            ConfigError: `timeout` is neither None nor a number of seconds; nothing is closed.
            LifecycleError: called in a future's callback.
        """
        check_timeout("timeout", timeout)
        if self._client.connections.foreign:  # a forked child: nothing here is its own
            return
        refuse_in_callback("close")
        shielded(partial(self._close, timeout))

    def _close(self, timeout: float | None) -> None:
        with self._lifecycle:
            was_started, was_closed = self._started, self._closed
            self._closed = True
        if was_closed:
            return
        try:
            if was_started and not self._dispatch.wait_empty(timeout):
                self._name_left()
            self._dispatch.close()
            if was_started:
                self._client.heartbeat.unregister_producer(self.group)
            if self._owns_client:
                self._client.close()
        finally:
            self._ended.set()
            self._ending.done()

    def _close_at_exit(self) -> None:
        messages = len(self._dispatch.room)
        if messages and not self._closed:
            self._log.warning("producer.left_open", messages=messages)
        self._close(FOR_SENDS)
        self._ended.wait()  # it may have been closing already

    def _name_left(self) -> None:
        messages = len(self._dispatch.room)
        if messages:
            self._log.error("producer.messages_left", messages=messages)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def aclose(self, timeout: float | None = 10.0) -> None:  # noqa: ASYNC109 - of `close`
        """`close` for an asyncio program: meanwhile the loop goes on. Same arguments and errors.

        Cancelling the task does not stop it: pending messages are still sent.
        """
        await in_thread_of_its_own(partial(self.close, timeout), "orderly-closing-producer")

    async def __aenter__(self) -> Self:
        """Start; it opens no connection, so nothing waits."""
        return self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def send(
        self,
        message: Message,
        *,
        selector: Selector | None = None,
        arg: object = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message and wait until it is stored. Arguments as for `submit`.

        Returns:
            Where it is stored. A status other than "SEND_OK" means stored with weaker durability.

        Raises:
            SendFailed: it was not acknowledged; `__cause__` says why. PrecedingSendFailed: it was
                not sent because an earlier message of its key failed.
            LifecycleError: called in a future's callback, or the producer does not run.
            OrderlyError: as `submit`.
        """
        refuse_in_callback("send")
        dispatch, message = self._running(), self._named(message)
        future = SyncResult(dispatch.room.leave)
        return dispatch.accept(message, selector, arg, timeout, future).result()

    def send_json(
        self,
        topic: str,
        value: object,
        *,
        key: str | int | None = None,
        tags: str | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a value as JSON and wait until it is stored.

        For the other fields of a message use `Message.of_json(...)` with `send`, `submit` or
        `asend`.

        Args:
            topic: where to.
            value: any JSON value, a pydantic model, a msgspec Struct or a dataclass.
            key: the sharding key.
            tags: one tag, for the consumer's filter.
            timeout: as `submit`.

        Raises:
            InvalidMessage: a value that JSON does not have.
            OrderlyError: as `send`.
        """
        return self.send(Message.of_json(topic, value, key, tags=tags), timeout=timeout)

    def submit(
        self,
        message: Message,
        *,
        selector: Selector | None = None,
        arg: object = None,
        timeout: float | None = None,
    ) -> Future[SendResult]:
        """Send a message without waiting for the answer.

        Waits while `ProducerConfig.max_pending` messages are on their way, and for the route when a
        topic is used for the first time. If `submit` raises an error, it did not accept the
        message, and nothing is held back. A later failure fails the future and holds the key.

        Args:
            message: what to send.
            selector: which queue; None: the producer's selector.
            arg: what the selector chooses by; None: the message's sharding key.
            timeout: seconds, waiting and retries included, after which no further attempt begins.
                None: `ProducerConfig.delivery_timeout`. A message in a batch with longer time-outs
                can fail up to one `send_timeout` later.

        Returns:
            A future with the SendResult or a SendFailed. Cancelling it withdraws the message if
            it is not in flight yet. Its callbacks run on the library's threads: keep them short;
            `submit` is allowed there (and does not wait for room), `send`, `flush` and `close`
            are not.

        Raises:
            ConfigError: (InvalidMessage) the message, its key, or the selector's answer; a key for
                a topic whose message type says that it has no order (DELAY, TRANSACTION, …).
            TopicNotFound: the topic does not exist.
            LayoutChanged: the topic's queues are not the pinned ones.
            RouteError, NameServerUnavailable: no queue is available at the moment.
            LifecycleError: the producer does not run.
        """
        dispatch, message = self._running(), self._named(message)
        return dispatch.accept(message, selector, arg, timeout, SendFuture(dispatch.room.leave))

    async def asend(
        self,
        message: Message,
        *,
        selector: Selector | None = None,
        arg: object = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the message's time, not the coroutine's
    ) -> SendResult:
        """`send` for coroutines, on any running event loop; never blocks it.

        Tasks of one loop that send the same key keep the order of their calls. `max_pending` does
        not limit them; the number of waiting tasks does. Cancelling the task withdraws the message
        if it is not in flight yet. Arguments and errors as for `send`.
        """
        dispatch, message = self._running(), self._named(message)
        _, lane = dispatch.plan(message, selector, arg)
        ordered, topic = lane is not None, message.topic
        future = SendFuture(dispatch.room.leave)
        accept = partial(dispatch.accept, message, selector, arg, timeout, future)
        turns = self._turns.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        queues = dispatch.topics.known(topic, ordered=ordered)
        if queues is not None and topic not in turns:
            accept(queues=queues)
        else:
            # Fair, so nobody overtakes a task that waits. It goes when no task has it any more.
            async with turns.setdefault(topic, asyncio.Lock()):
                queues = dispatch.topics.known(topic, ordered=ordered)
                if queues is None:
                    find = partial(dispatch.topics.queues, topic, ordered=ordered)
                    queues = await in_thread_of_its_own(find, "orderly-finding-queues")
                accept(queues=queues)
        return await asyncio.wrap_future(future)

    def send_oneway(self, message: Message) -> None:
        """Send a message without an answer: it can be lost, and it has no order.

        Raises:
            ConfigError: the message has a sharding key: without an answer there is no order. To
                send in order without waiting, call `submit` and ignore the future.
            OrderlyError: it was not sent; as for `submit`, and RemotingError.
        """
        if getattr(message, "sharding_key", None) is not None:  # dispatch checks what it is
            raise ConfigError(
                "send_oneway cannot keep the order of a sharding key, because it does not learn of"
                " a failure; call submit() and ignore the future instead"
            )
        self._running().oneway(self._named(message))

    def resume(self, key: str | int | None = None, topic: str | None = None) -> None:
        """Let later messages of a key through again after one of them failed.

        Call it after you have dealt with the failed message: sent it again, or given it up.

        Args:
            key: the sharding key, or the `arg` it was sent with. None: the messages that keep
                their order without a key (`single_queue`, or a selector of your own).
            topic: only in this topic; None: in all topics.

        Raises:
            ConfigError: an invalid key, or an invalid topic name.
            LifecycleError: the producer does not run.
        """
        if key is not None and not (isinstance(key, str) or is_int(key)):
            raise ConfigError(f"key must be a str, an int or None, not {type(key).__name__}")
        real = None if topic is None else self._topic(topic)
        lane = KEYLESS_LANE if key is None else str(key)
        shielded(partial(self._running().resume, lane, real))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no message is pending. What waits for more messages (`linger`) goes out now.

        Args:
            timeout: seconds; None: as long as it takes.

        Returns:
            False if the time-out came first.

        Raises:
            ConfigError: `timeout` is neither None nor a number of seconds.
            LifecycleError: called in a future's callback, or the producer does not run.
        """
        check_timeout("timeout", timeout)
        refuse_in_callback("flush")
        return self._running().wait_empty(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - of `flush`
        """`flush` for an asyncio program: meanwhile the loop goes on. Same arguments and errors."""
        flush = partial(self.flush, timeout)
        return await in_thread_of_its_own(flush, "orderly-flushing-producer")

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that selectors get, in counting order. Pins the layout, as a send does.

        Raises:
            OrderlyError: as `submit`.
        """
        return self._running().topics.queues(self._topic(topic), ordered=True)

    def _topic(self, name: str) -> str:
        """The broker's name of a topic: with the client's namespace."""
        return check_topic(name, self._client.config.namespace)

    def _named(self, message: Message) -> Message:
        """The message with its topic named as at the broker; what is no message is left alone."""
        namespace = self._client.config.namespace
        if not namespace or not isinstance(message, Message) or not isinstance(message.topic, str):
            return message
        return replace(message, topic=wrap(namespace, message.topic))

    def _running(self) -> Dispatch:
        self._client.connections.check_process()
        if self._started and not self._closed:
            return self._dispatch
        state = "is closed; make a new one" if self._closed else "is not started; call start()"
        raise LifecycleError(f"the producer {state} (or use it in a with statement)")
