"""The listener over librocketmq: a callback whose answer says what came of the message.

For our NativeConsumer, and for `rocketmq.client.PushConsumer(group, orderly=True).subscribe(topic,
callback)` of rocketmq-client-python. In that package an exception leaves a random return value for
the C call, and a 0 acknowledges the message; so nothing is ever raised here.

librocketmq brings a failed message again within a second (after 15 times: 5 s) and takes no wish;
the more it pulls meanwhile, the sooner. So a wait is kept by turning the message away until then
(`Waits`). It has no call for dead letters, and shows of a delivered message neither the broker nor
all properties: the message is read again where it can only be, recognised by its id, and sent as
any consumer of ours does (`DeadLetters`).
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import wraps
from typing import Any, Unpack, cast

from orderly.client import Client
from orderly.client.broker import PullQuery
from orderly.config import ClientConfig, check_group, is_async
from orderly.config.arguments import is_int
from orderly.errors import (
    ConfigError,
    DataLost,
    NativeLibraryError,
    OrderlyError,
    UnsupportedByDriver,
)
from orderly.listening import AsyncListener, Attempt, Block, Listener, Outcome
from orderly.listening.handler_call import Function
from orderly.listening.settings import Rules, Settings
from orderly.log import error_text, get_logger, type_text, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.namespace import wrap
from orderly.native.library import BODY_LENGTH, CONSUME_LATER, CONSUMED, CONSUMING, Library
from orderly.ordering.context import ConsumeContext, Lost
from orderly.ordering.lru import put_latest
from orderly.ordering.results import ConsumeResult, Park, Suspend
from orderly.protocol import properties as names
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.moments import moment_of
from orderly.protocol.send import dead_letter_request

_KNOWN = (names.SHARDING_KEY, names.TAGS, names.KEYS, names.UNIQ_KEY, names.RETRY_TOPIC)


class Reading:
    """Copies messages out of the library. Thread-safe.

    Args:
        library: whose messages they are.
        properties: names of the program's own properties: the library gives those it is asked for.
        text_bodies: bodies hold no NUL. Releases up to 2.2.0 do not say how long a body is, so
            what follows a NUL would be lost.

    Attributes:
        library: whose messages they are.

    Raises:
        NativeLibraryError: the library cannot give the length of a body, and bodies may need it.
    """

    def __init__(self, library: Library, properties: Iterable[str], *, text_bodies: bool) -> None:
        if BODY_LENGTH not in library and not text_bodies:
            raise NativeLibraryError(
                f"librocketmq at {library.path} lacks {BODY_LENGTH}, so a body would end at its"
                " first NUL: build it from its project's newest sources, pass text_bodies=True if"
                " none of your bodies contains a NUL, or use OrderlyConsumer"
            )
        self.library = library
        self._names = tuple(dict.fromkeys((*_KNOWN, *properties)))

    def message(self, handle: object) -> ReceivedMessage:
        """Return the message.

        Its queue's broker is "": GetMessageStoreHost answers with memory that is freed already.

        Raises:
            ConfigError: `handle` cannot be a pointer.
        """
        if not is_int(handle) or handle <= 0:
            raise ConfigError(f"a message of librocketmq is a pointer, not {type_text(handle)}")
        library = self.library
        topic = self._text("GetMessageTopic", handle)
        return ReceivedMessage(
            queue=MessageQueue(topic, "", library["GetMessageQueueId"](handle)),
            queue_offset=library["GetMessageQueueOffset"](handle),
            body=self._body(handle),
            properties=self._properties(handle),
            message_id=self._text("GetMessageId", handle),
            offset_message_id="",
            born_time=moment_of(library["GetMessageBornTimestamp"](handle)),
            store_time=moment_of(library["GetMessageStoreTimestamp"](handle)),
            born_host="",
            store_host="",
            reconsume_times=library["GetMessageReconsumeTimes"](handle),
            flag=0,
            sys_flag=0,
            physical_offset=library["GetMessageCommitLogOffset"](handle),
            stored_size=library["GetMessageStoreSize"](handle),
        )

    def _body(self, handle: int) -> bytes:
        start = self.library["GetMessageBody"](handle)
        if not start:
            return b""
        if BODY_LENGTH not in self.library:
            return ctypes.string_at(start)
        return ctypes.string_at(start, self.library[BODY_LENGTH](handle))

    def _properties(self, handle: int) -> dict[str, str]:
        read = self.library["GetMessageProperty"]
        found = {name: _decoded(read(handle, name.encode())) for name in self._names}
        return {name: text for name, text in found.items() if text}

    def _text(self, call: str, handle: int) -> str:
        return _decoded(self.library[call](handle))


def _decoded(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace")


def refusal(what: str) -> UnsupportedByDriver:
    """Return the error: the native driver does not support `what`; OrderlyConsumer does."""
    return UnsupportedByDriver(
        f"librocketmq does not support {what}: use orderly.OrderlyConsumer, which talks to the"
        " brokers itself (docs/how-to/native.md)"
    )


class NativeContext(ConsumeContext):
    """A ConsumeContext that knows nothing of the queue's lock: that is in the library's hands."""

    __slots__ = ()

    @property
    def deadline(self) -> float:
        """Not to be had: raises UnsupportedByDriver."""
        raise refusal("the deadline of a queue's lock")

    @property
    def lost(self) -> Lost:
        """Not to be had: raises UnsupportedByDriver."""
        raise refusal("reporting a lost lock")

    def extend(self) -> float:
        """Not to be had: raises UnsupportedByDriver."""
        raise refusal("renewing a lock by hand")


_MOST = 10_000  # messages; each queue has one that failed
Mark = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Failed:
    """A message that is to come again: how often it was tried, and when the next try is due."""

    tries: int
    due: float


class Waits:
    """Thread-safe. Times are seconds of one clock that never goes back.

    Args:
        most: messages that are remembered; beyond that the oldest are forgotten.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._failed: OrderedDict[Mark, Failed] = OrderedDict()
        self._lock = threading.Lock()

    def tries(self, message: ReceivedMessage) -> int:
        """How often the message failed."""
        failed = self._of(message)
        return 0 if failed is None else failed.tries

    def holds(self, message: ReceivedMessage, now: float) -> bool:
        """Whether the message's wait is not over."""
        failed = self._of(message)
        return failed is not None and now < failed.due

    def settled(self, message: ReceivedMessage) -> None:
        """The message will not come again."""
        with self._lock:
            self._failed.pop(_mark(message), None)

    def again(self, message: ReceivedMessage, due: float, *, tried: bool) -> None:
        """The message comes again, not before `due`; an attempt counts if it was `tried`."""
        with self._lock:
            mark = _mark(message)
            before = self._failed.get(mark, Failed(0, due))
            put_latest(self._failed, mark, Failed(before.tries + tried, due), self._most)

    def _of(self, message: ReceivedMessage) -> Failed | None:
        with self._lock:
            return self._failed.get(_mark(message))


def _mark(message: ReceivedMessage) -> Mark:
    queue = message.queue
    return queue.topic, queue.queue_id, message.queue_offset, message.message_id


_WAIT = 1.0  # seconds, where nobody says how long


class ConsumeStatus(IntEnum):
    """What a callback returns to librocketmq."""

    CONSUME_SUCCESS = CONSUMED
    RECONSUME_LATER = CONSUME_LATER


class NativeListener:
    """See `listener`, which makes it. Thread-safe if the function is.

    Args:
        handler: the listener that handles each message.
        reading: of the library whose messages are delivered.
        dead_letters: where dead letters go, and of which group; None: nowhere, so such messages
            block.
    """

    def __init__(
        self, handler: Listener, reading: Reading, dead_letters: DeadLetters | None
    ) -> None:
        self._handler = handler
        self._reading = reading
        self._dead_letters = dead_letters
        self._group = "" if dead_letters is None else dead_letters.group
        self._namespace = "" if dead_letters is None else dead_letters.config.namespace
        self._redacts = dead_letters is not None and dead_letters.config.redacts
        self._waits = Waits()
        self._log = get_logger("orderly.native", redact=self._redacts)

    def __call__(self, message: Any) -> ConsumeStatus:
        """Handle a message; never raises.

        Args:
            message: of rocketmq-client-python, or the C side's pointer to one.
        """
        received: ReceivedMessage | None = None
        try:
            received = self._reading.message(getattr(message, "_handle", message))
            done = self._handle(received)
        except BaseException as error:  # noqa: BLE001 - a raise would acknowledge the message
            with suppress(BaseException):  # so would one of the program's own logging
                self._log_failure(received, error)
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS if done else ConsumeStatus.RECONSUME_LATER

    @property
    def library(self) -> Library:
        """The library whose messages it reads."""
        return self._reading.library

    def serving(self, dead_letters: DeadLetters) -> NativeListener:
        """Return this listener for a group's consumer, with its own memory of waits."""
        return NativeListener(self._handler, self._reading, dead_letters)

    def _log_failure(self, received: ReceivedMessage | None, error: BaseException) -> None:
        at = where(self._group, None if received is None else received.queue, received)
        self._log.error("native.callback_failed", **at, error=error_text(error), exc_info=error)

    def _handle(self, received: ReceivedMessage) -> bool:
        """Return whether the message is done."""
        now = time.monotonic()
        if self._waits.holds(received, now):
            return False
        tries = self._waits.tries(received)
        message = replace(received, reconsume_times=tries, namespace=self._namespace)
        context = NativeContext(
            message.queue, self._group, attempt=tries + 1, redact_keys=self._redacts
        )
        answer = self._handler((message,), context)
        if answer is ConsumeResult.SUCCESS or self._rejected(message, context):
            self._waits.settled(message)
            return True
        wait = _WAIT if context.suspend_seconds is None else context.suspend_seconds
        tried = message.queue_offset not in context.untried
        self._waits.again(message, time.monotonic() + wait, tried=tried)
        return False

    def _rejected(self, message: ReceivedMessage, context: NativeContext) -> bool:
        """Return whether the message was to be a dead letter and is stored as one."""
        at = where(self._group, message.queue, message)
        if context.parked:
            self._log.error("native.unsupported", **at, what="parking: the message blocks")
        reason = context.rejected.get(message.queue_offset)
        if reason is None:
            return False
        if self._dead_letters is None:
            what = "dead letters without DeadLetters(group): the message blocks"
            self._log.error("native.unsupported", **at, what=what)
            return False
        try:
            self._dead_letters.bury(message)
        except OrderlyError as error:
            self._log.warning("native.not_dead_lettered", **at, error=str(error))
            return False
        ids = {"reason": reason, "message_id": message.message_id}
        self._log.error("native.dead_lettered", **at, **ids)
        return True


def listener(
    function: Function | Listener,
    /,
    *,
    dead_letters: DeadLetters | None = None,
    library: Library | None = None,
    text_bodies: bool = False,
    properties: Iterable[str] = (),
    **settings: Unpack[Settings],
) -> NativeListener:
    """Turn a single-message function into a callback for librocketmq.

        consumer = rocketmq.client.PushConsumer("shipping", orderly=True)
        consumer.subscribe("orders", native.listener(ship, on_poison="skip"))

    A failing message is retried in place, and the rest of its queue waits. The retry comes when its
    wait is over and librocketmq delivers it again, at most a second later (five after fifteen
    times). The verdict and "block", "skip" and "dead_letter" work as in `orderly.listener`; there
    are no tokens and locks.

    Args:
        function: as for `orderly.listener`, plain; or a Listener, whose settings hold.
        dead_letters: where dead letters go; a NativeConsumer brings its own.
        library: the library that delivers the messages. None: that of rocketmq-client-python where
            it is imported, else the one that is found.
        text_bodies: promise that no body contains a NUL byte; needed with librocketmq up to 2.2.0.
        properties: names of your own properties to include in `message.properties`.
        settings: those of `orderly.listener`.

    Raises:
        ConfigError: a wrong setting.
        UnsupportedByDriver: an async function, on_poison="park_key", Retry(extend=True).
        NativeLibraryError: no librocketmq, or one that lacks a call.
    """
    handler = _supported(function, settings)
    loaded = library or Library(_path_of_the_binding())
    loaded.require(CONSUMING)
    reading = Reading(loaded, properties, text_bodies=text_bodies)
    return NativeListener(handler, reading, dead_letters)


def _supported(function: Function | Listener, settings: Settings) -> Listener:
    """Return a listener that answers nothing which the driver cannot do.

    Raises:
        UnsupportedByDriver: it is made for nothing else.
    """
    if isinstance(function, AsyncListener) or is_async(function):
        raise refusal("async functions")
    if isinstance(function, Listener):
        if settings:
            raise ConfigError(
                "this listener already has settings: pass its function instead, or pass no settings"
            )
        rules = function.rules
        settings = cast(
            "Settings", {each.name: getattr(rules, each.name) for each in fields(rules)}
        )
        function = cast("Function", cast("Any", function).__wrapped__)
    rules = Rules(**settings)
    if rules.parks:
        raise refusal("parking a key")
    if rules.retry.extend:
        raise refusal("renewing a lock before a retry")
    return Listener(_checked(function), **settings)


def _checked(function: Function) -> Function:
    """Return the function with what the driver cannot do made a Block: nothing is lost by that."""

    @wraps(function)
    def checked(value: Any, attempt: Attempt) -> Outcome:
        try:
            answer = function(value, attempt)
        except UnsupportedByDriver as error:
            return Block(str(error))
        if isinstance(answer, Park):
            return Block(str(refusal("parking a key")))
        if isinstance(answer, Suspend) and answer.seconds is not None:
            return Block(str(refusal("suspending a message for some seconds")))
        return answer

    return checked


def _path_of_the_binding() -> str | None:
    """The library that rocketmq-client-python has loaded, if it is imported."""
    dll = getattr(sys.modules.get("rocketmq.ffi"), "dll", None)
    name = getattr(dll, "_name", None)
    return name if isinstance(name, str) else None


class DeadLetters:
    """Thread-safe; connects with the first dead letter.

    Args:
        group: the consumer group.
        namesrv: "host:port;host:port"; wins over the config's.
        config: of the connections.

    Attributes:
        group: as at the broker.
        config: of the connections.

    Raises:
        ConfigError: a bad group; no name server.
    """

    def __init__(
        self, group: str, *, namesrv: str = "", config: ClientConfig | None = None
    ) -> None:
        self._client = Client(config, namesrv=namesrv)
        self.config = self._client.config
        self.group = wrap(self.config.namespace, check_group(group))
        self._opening = threading.Lock()

    def bury(self, message: ReceivedMessage) -> None:
        """Store a message in the group's dead letters. Blocks.

        Args:
            message: as librocketmq delivered it.

        Raises:
            DataLost: no broker has the message any more.
            OrderlyError: it is not stored, or that is not known.
        """
        with self._opening:
            self._client.start()
        found = self._original(message)
        found = replace(found, reconsume_times=message.reconsume_times)
        command = dead_letter_request(self.group, found, found.queue.broker_name, time.time())
        self._client.brokers.send_now(found.queue, command)

    def close(self) -> None:
        """Close its connections. Idempotent."""
        self._client.close()

    def _original(self, message: ReceivedMessage) -> ReceivedMessage:
        queue_id = message.queue.queue_id
        for queue in self._client.routes.get(message.queue.topic).read_queues():
            if queue.queue_id == queue_id and (found := self._at(queue, message)) is not None:
                return found
        raise DataLost(
            f"message {message.message_id} is at offset {message.queue_offset} of no queue"
            f" {queue_id} of {message.queue.topic}: the broker deleted it, or its master is down"
        )

    def _at(self, queue: MessageQueue, message: ReceivedMessage) -> ReceivedMessage | None:
        offset, everything = message.queue_offset, Subscription(queue.topic)
        query = PullQuery(self.group, queue, offset, 1, everything, suspend=0)
        for found in self._client.brokers.pull_now(query).messages[:1]:
            ids = found.message_id, found.offset_message_id
            if found.queue_offset == offset and message.message_id in ids:
                return found
        return None
