"""The producer over librocketmq: each message to its key's queue, or nowhere.

A callback calls our selectors. It gets the number of queues, nothing more, and what it returns is
used unchecked. It cannot refuse either, and an exception would count as 0, the first
queue. So an error is kept, and the message gets a topic that no broker accepts.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from orderly.config import MIB, ClientConfig, check_group
from orderly.config.arguments import check_count, check_number
from orderly.errors import (
    InvalidMessage,
    LayoutChanged,
    LifecycleError,
    NativeCallFailed,
    SendFailed,
)
from orderly.log import get_logger
from orderly.message import Message, stored_properties
from orderly.model import MessageQueue, SendResult
from orderly.namespace import wrap
from orderly.native.library import (
    PRODUCING,
    Library,
    Life,
    QueueSelector,
    StoredMessage,
    check_driver,
    connect,
    instance_name,
)
from orderly.producer.pending import check_message
from orderly.protocol.properties import encode_properties
from orderly.selectors import (
    Layout,
    RoundRobin,
    Selector,
    choose,
    hash_mod,
    parse_layout,
    queues_of,
)
from orderly.selectors.choice import check_selector, lane_of, needs_key

NOWHERE = b"refused: not to be stored"  # no broker takes a topic's name with spaces


class Layouts:
    """How many queues each topic has, pinned. Thread-safe.

    Args:
        layout: "strict": what the first send sees; "loose": what each send sees; or a pin.

    Raises:
        ConfigError: a pin that cannot be read.
    """

    def __init__(self, layout: str) -> None:
        self._loose = layout == "loose"
        self._pin: Layout | None = None if layout in ("strict", "loose") else parse_layout(layout)
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._log = get_logger("orderly.native")

    def queues(self, topic: str, size: int) -> Sequence[MessageQueue]:
        """Return the topic's queues in counting order; brokers have names only in a pin.

        Raises:
            LayoutChanged: there are more or fewer than are pinned.
        """
        if self._pin is not None:
            pinned = queues_of(self._pin, topic)
        else:
            count = size if self._loose else self._first(topic, size)
            pinned = tuple(MessageQueue(topic, "", number) for number in range(count))
        if len(pinned) != size:
            raise LayoutChanged(
                f"{topic} has {size} queues but this producer is pinned to {len(pinned)}: sending"
                " now would move keys to other queues and break their order. If a broker is down,"
                " wait until it is back; if the queues were changed on purpose, stop all producers"
                " of the topic, let the consumers catch up, then start them again"
            )
        return pinned

    def _first(self, topic: str, size: int) -> int:
        with self._lock:
            new = topic not in self._seen
            pinned = self._seen.setdefault(topic, size)
        if new:
            self._log.info("native.layout_pinned", topic=topic, queues=size)
        return pinned


class Placement:
    """One send's choice, called by librocketmq. Used by that send only.

    Args:
        library: to have the message refused.
        layouts: the producer's.
        message: as named at the broker.
        selector, arg: see `orderly.selectors`.

    Attributes:
        queue: what was chosen; None: nothing was.
        error: why nothing was.
    """

    def __init__(
        self, library: Library, layouts: Layouts, message: Message, selector: Selector, arg: object
    ) -> None:
        self._refuse: Callable[[int, bytes], object] = library["SetMessageTopic"]
        self._layouts = layouts
        self._message = message
        self._selector = selector
        self._arg = arg
        self.queue: MessageQueue | None = None
        self.error: BaseException | None = None

    def __call__(self, size: int, handle: int, _arg: int) -> int:
        """Return the index of the queue."""
        try:
            queues = self._layouts.queues(self._message.topic, size)
            chosen = choose(self._selector, queues, self._message, self._arg)
            index = queues.index(chosen)
        except BaseException as error:  # noqa: BLE001 - nothing may be raised into C
            self.error = error
            self._refuse(handle, NOWHERE)
            return 0
        self.queue = chosen
        return index

    def check(self) -> MessageQueue:
        """Return the chosen queue.

        Raises:
            BaseException: what the selector raised, or LayoutChanged.
            SendFailed: nobody asked the selector.
        """
        if self.error is not None:
            raise self.error
        if self.queue is None:
            raise SendFailed(
                "librocketmq did not ask the selector: the message can be in any queue"
            )
        return self.queue


def properties_of(message: Message, max_body: int) -> dict[str, str]:
    r"""Return all properties that a message is sent with, and check it.

    Raises:
        InvalidMessage: what any driver refuses; a NUL in a text, where C would end it.
    """
    check_message(message, max_body)
    properties = stored_properties(message)
    for name, text in encode_checked(properties).items():
        if "\0" in name or "\0" in text:
            raise InvalidMessage(f"property {name!r} holds \\0, where a C text ends; leave it out")
    return properties


def encode_checked(properties: dict[str, str]) -> dict[str, str]:
    """Return `properties` if they can be sent; raises InvalidMessage."""
    encode_properties(properties)
    return properties


@contextmanager
def native_message(
    library: Library, topic: str, body: bytes, properties: dict[str, str]
) -> Iterator[int]:
    """Make a message for the C side; freed at the end.

    Raises:
        NativeCallFailed: the library did not take a part of it.
    """
    handle = library["CreateMessage"](topic.encode())
    if not handle:
        raise NativeCallFailed("CreateMessage returned no message: is memory short?")
    try:
        library.do("SetByteMessageBody", handle, body, len(body))
        for name, text in properties.items():
            library.do("SetMessageProperty", handle, name.encode(), text.encode())
        yield handle
    finally:
        library["DestroyMessage"](handle)


_STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
_NO_RETRIES = 0  # any other number has librocketmq retry on ANOTHER queue: out of order
_LARGEST = 2**31 - 1  # a C int; more would silently wrap below 0
_SOME_ARGUMENT = 1  # a null pointer is refused; nothing reads it


class NativeOrderlyProducer:
    """Sends messages through librocketmq so that those of one sharding key share a queue.

    A send waits for the broker's answer and is never repeated, because librocketmq would repeat it
    on another queue. So the order of a key is the order of the calls, as long as one thread at a
    time sends it. After a SendFailed the message can be stored nevertheless. If you send it again
    before later messages of its key, it can be stored twice, but its first copy is in order.

    Thread-safe. The producer ends with the process at the latest.

        with NativeOrderlyProducer(namesrv="localhost:9876") as producer:
            producer.send(Message("orders", b"created", sharding_key="order-1001"))

    Args:
        group: the producer group.
        namesrv: "host:port;host:port" of the name servers; wins over the config's.
        config: name servers, namespace and keys; `tls` is refused.
        selector: chooses the queue of a message, unless a call gives another selector.
        layout: "strict": the number of queues that the first send to a topic sees is pinned;
            "loose": it may change; or a pin such as "broker-a:8;broker-b:8".
        send_timeout: seconds that a send may take once it has a connection.
        max_message_size: bytes of body.
        library: None: the one that is found.

    Raises:
        ConfigError: a setting outside its range, no name server.
        NativeLibraryError: no librocketmq, or one that lacks a call.
        UnsupportedByDriver: `tls`.
    """

    def __init__(
        self,
        group: str = "orderly-native-producer",
        *,
        namesrv: str = "",
        config: ClientConfig | None = None,
        selector: Selector = hash_mod,
        layout: str = "strict",
        send_timeout: float = 3.0,
        max_message_size: int = 4 * MIB,
        library: Library | None = None,
    ) -> None:
        self.group = check_group(group)
        self._config = check_driver(config, namesrv)
        self._selector = check_selector(selector)
        self._layouts = Layouts(layout)
        check_number("send_timeout", send_timeout, 0.001, _LARGEST // 1000)
        self._timeout = round(send_timeout * 1000)
        check_count("max_message_size", max_message_size, 1)
        check_number("max_message_size", max_message_size, 1, _LARGEST)
        self._max_body = max_message_size
        self._library = library or Library()
        self._library.require(PRODUCING)
        self._spread = RoundRobin()
        self._handle = 0
        self._life = Life("producer", self._start, self._end)
        # Ctrl-C is raised in the main thread only. Raised in a callback of a C call it would be
        # swallowed, and the callback's answer with it: the message would go to the first queue.
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="orderly-native-send")

    def start(self) -> Self:
        """Connect.

        Raises:
            LifecycleError: started or closed before.
            NativeCallFailed: librocketmq did not start.
        """
        self._life.begin()
        return self

    def close(self) -> None:
        """Wait for the sends that run, then end. Idempotent."""
        self._life.finish()
        self._aside.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def send(
        self, message: Message, *, selector: Selector | None = None, arg: object = None
    ) -> SendResult:
        """Send a message and wait until it is stored.

        Args:
            message: what to send.
            selector: which queue; None: the producer's.
            arg: what the selector chooses by; None: the message's sharding key.

        Returns:
            Where it is stored; the broker has a name only with a pinned layout, and
            `offset_message_id` is not known.

        Raises:
            SendFailed: the message was not acknowledged, but can be stored. Deal with it before you
                send later messages of its key.
            ConfigError: (InvalidMessage) the message, its key, or the selector's answer.
            LayoutChanged: the topic's queues are not the pinned ones; nothing was sent.
            LifecycleError: the producer does not run.
        """
        properties = properties_of(message, self._max_body)
        named = replace(message, topic=wrap(self._config.namespace, message.topic))
        placement = self._placement(named, selector, arg)
        self._life.check()
        if threading.current_thread() is not threading.main_thread():
            return self._send(named, properties, placement)
        try:
            sending = self._aside.submit(self._send, named, properties, placement)
        except RuntimeError as error:
            raise LifecycleError(
                "the producer is closed, or the process is ending: send earlier"
            ) from error
        return sending.result()

    def _placement(self, message: Message, selector: Selector | None, arg: object) -> Placement:
        chosen = self._selector if selector is None else check_selector(selector)
        if message.sharding_key is None and arg is None and needs_key(chosen):
            chosen = self._spread  # no key: no order to keep
        lane_of(chosen, message, arg)  # refuses a key with a selector that keeps no order
        return Placement(self._library, self._layouts, message, chosen, arg)

    def _send(self, message: Message, properties: dict[str, str], placing: Placement) -> SendResult:
        stored = StoredMessage()
        failed: NativeCallFailed | None = None
        made = native_message(self._library, message.topic, message.body, properties)
        with self._life.call(), made as handle:
            try:
                self._library.do(
                    "SendMessageOrderly",
                    self._handle,
                    handle,
                    QueueSelector(placing),
                    _SOME_ARGUMENT,
                    _NO_RETRIES,
                    ctypes.byref(stored),
                )
            except NativeCallFailed as error:
                failed = error
        if failed is not None and placing.error is None:
            raise SendFailed(
                f"a message for {message.topic} was not acknowledged. The broker may have stored"
                " it anyway, and librocketmq's error can be wrong about the cause (see its"
                " log). Send it again before any later message of its key, or give it up"
            ) from failed
        queue = placing.check()
        status = _STATUSES[stored.status] if 0 <= stored.status < len(_STATUSES) else "SEND_OK"
        message_id = stored.message_id.decode("utf-8", "replace")
        return SendResult(queue, stored.offset, message_id, "", status)

    def _start(self) -> None:
        self._handle = self._library["CreateProducer"](
            wrap(self._config.namespace, self.group).encode()
        )
        if not self._handle:
            raise NativeCallFailed("CreateProducer returned no producer: is memory short?")
        try:
            connect(self._library, "Producer", self._handle, self._config, instance_name())
            self._library.do("SetProducerSendMsgTimeout", self._handle, self._timeout)
            self._library.do("SetProducerMaxMessageSize", self._handle, self._max_body)
            self._library.do("StartProducer", self._handle)
        except BaseException:  # a Ctrl-C too, which comes when it has started
            self._end()
            raise

    def _end(self) -> None:
        self._library["ShutdownProducer"](self._handle)
        self._library["DestroyProducer"](self._handle)
