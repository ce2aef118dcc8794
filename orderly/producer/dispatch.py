"""From a message to the sender of its queue: what a running producer does with each message."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from orderly.client import Client
from orderly.config import ProducerConfig, check_seconds
from orderly.errors import LifecycleError
from orderly.model import Message, MessageQueue, SendResult
from orderly.ordering.sending.batch import OutboxRules
from orderly.producer.awaited import Awaited
from orderly.producer.commands import SendCommands
from orderly.producer.completion import in_callback
from orderly.producer.future import SendFuture
from orderly.producer.message_ids import MessageIds
from orderly.producer.pending import (
    PendingSend,
    batch_size,
    check_message,
    compressed,
    properties_text,
)
from orderly.producer.queue_sender import QueueSender
from orderly.producer.room import Room
from orderly.producer.topic_types import TopicTypes
from orderly.producer.topics import Topics
from orderly.selectors.choice import Selector, check_selector, choose, lane_of
from orderly.selectors.rules import needs_key
from orderly.selectors.unkeyed import RoundRobin

F = TypeVar("F", Future[SendResult], Awaited)

_CONNECTORS = 16  # threads that may wait for connections at once; started only when needed


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
        self.room = Room(config.max_pending)
        self._client = client
        self._group = group
        self._config = config
        self._selector = check_selector(selector)
        self._log = log
        self._spread = RoundRobin()
        self._ids = MessageIds(client.client_id)
        self._executor = ThreadPoolExecutor(_CONNECTORS, thread_name_prefix="orderly-send")
        self._lock = threading.Lock()
        self._senders: dict[MessageQueue, QueueSender] = {}
        self._closed = False

    def plan(
        self, message: Message, selector: Selector | None, arg: object
    ) -> tuple[Selector, str | None]:
        """Check a message and say who chooses its queue and in which lane it keeps its order.

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
        wait: bool,
    ) -> F:
        """Take a message over; its future tells the rest.

        Args:
            message: what to send.
            selector: None: the producer's.
            arg: for the selector; None: the sharding key.
            timeout: seconds until the last attempt must have begun.
            future: to tell. An Awaited one: the caller waits for it, and may read the reply
                itself.
            wait: whether to wait while the producer is full.

        Raises:
            OrderlyError: the message was not taken over.
        """
        limit = check_seconds(
            "timeout", self._config.delivery_timeout if timeout is None else timeout
        )
        chosen, lane = self.plan(message, selector, arg)
        deadline = time.monotonic() + limit
        entry = self._entry(message, lane, deadline, future)
        queues = self.topics.queues(message.topic, ordered=lane is not None)
        sender = self._sender(choose(chosen, queues, message, arg))
        if self._enter(entry, wait=wait and not in_callback()):
            sender.add(entry)
        else:
            limit = self._config.max_pending
            sender.turn_away(entry, TimeoutError(f"{limit} messages are pending (max_pending)"))
        return future

    def oneway(self, message: Message) -> None:
        """Send a keyless message without asking what became of it; connects if need be.

        Raises:
            OrderlyError: it did not go out.
        """
        check_message(message, self._config.max_message_size)
        entry = self._entry(message, None, 0.0, SendFuture())
        queue = self._spread(self.topics.queues(message.topic, ordered=False), message, None)
        command = SendCommands(self._group, queue).make([entry], time.time(), oneway=True)
        address = self._client.routes.address(queue)
        self._client.connections.get(address).send_oneway(command)

    def resume(self, lane: str, topic: str | None) -> None:
        """Open a lane in all queues, or in those of one topic."""
        with self._lock:
            senders = list(self._senders.values())
        for sender in senders:
            if topic is None or sender.queue.topic == topic:
                sender.resume(lane)

    def close(self) -> None:
        """Fail what is not stored; whatever comes later fails at once."""
        cause = LifecycleError("the producer was closed before the message was acknowledged")
        with self._lock:
            self._closed = True
            senders = list(self._senders.values())
        for sender in senders:
            sender.close(cause)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _entry(
        self,
        message: Message,
        lane: str | None,
        deadline: float,
        future: Future[SendResult] | Awaited,
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
            urgent=isinstance(future, Awaited),
            body=body,
            properties=text,
            message_id=message_id,
            future=future,
        )

    def _enter(self, entry: PendingSend, *, wait: bool) -> bool:
        """Count the message in, waiting for room if allowed; False if none was found in time."""
        if not wait:
            self.room.enter_anyway()
            found_room = True
        else:
            found_room = self.room.enter(entry.deadline - time.monotonic())
            if not found_room:
                self.room.enter_anyway()  # its future leaves the room like any other
        entry.future.add_done_callback(self.room.leave)
        return found_room

    def _sender(self, queue: MessageQueue) -> QueueSender:
        sender = self._senders.get(queue)
        if sender is not None:
            return sender
        with self._lock:
            if self._closed:
                raise LifecycleError("the producer is closed; make a new one")
            if queue not in self._senders:
                self._senders[queue] = self._new_sender(queue)
            return self._senders[queue]

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
            group=self._group,
            rules=rules,
            send_timeout=config.send_timeout,
            log=self._log,
        )
