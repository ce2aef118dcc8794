"""A message on its way: how many there may be, its checks, its bytes, its future's end."""

from __future__ import annotations

import ipaddress
import itertools
import os
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from orderly.errors import InvalidMessage, LifecycleError, OrderlyError
from orderly.interruptions import Bell
from orderly.log import get_logger
from orderly.message import Message, check_names, stored_properties
from orderly.model import NO_PROPERTIES, SendResult
from orderly.ordering.outbox import OutboxEntry
from orderly.producer.future import SendFuture, SyncResult
from orderly.protocol import properties as names
from orderly.protocol.compression import Compression, compress_zlib
from orderly.protocol.properties import (
    MARK_ROOM,
    MAX_SENT_PROPERTIES,
    encode_properties,
    utf8_size,
)
from orderly.protocol.send import unique_key
from orderly.redaction import places


class PendingLimit:
    """The messages a producer has accepted and whose outcome is not known yet. Thread-safe.

    They are kept, not counted: whoever is interrupted between two steps can leave one here, but not
    twice, and it is taken out again; a count would stay wrong.

    Args:
        limit: messages before `wait_for_room` waits. Threads that wait at the same moment can
            exceed it by one each.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside: set[object] = set()
        self._space = Bell()
        self._nobody = Bell()

    def __len__(self) -> int:
        return len(self._inside)

    def wait_for_room(self, timeout: float) -> bool:
        """Wait while it is full. False if that lasts longer than `timeout` seconds."""
        if len(self._inside) < self._limit:
            return True
        return self._space.wait_for(lambda: len(self._inside) < self._limit, timeout)

    def enter(self, future: object) -> None:
        """Come in, even if it is full; a second time does nothing."""
        self._inside.add(future)

    def leave(self, future: object) -> None:
        """Go out; may be a future's callback. A second time does nothing."""
        self._inside.discard(future)
        if self._space.asleep:
            self._space.ring()
        if self._nobody.asleep and not self._inside:
            self._nobody.ring()

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until nobody is inside; False if `timeout` seconds pass before."""
        return self._nobody.wait_for(lambda: not self._inside, timeout)


# --- unique ids (UNIQ_KEY), one series a producer -------------------------------------------------


class MessageIds:
    """Makes ids that no other process makes. Thread-safe.

    Args:
        client_id: "ip@pid#random"; only the address is taken from it.
    """

    def __init__(self, client_id: str) -> None:
        self._ip = _address(client_id.partition("@")[0])
        self._process = secrets.randbits(32)  # two containers may share address and pid
        self._counter = itertools.count(secrets.randbits(16))

    def next(self) -> str:
        """The next id."""
        now, counter = time.time(), next(self._counter)
        return unique_key(self._ip, os.getpid(), self._process, now, counter)


def _address(text: str) -> bytes:
    try:
        return ipaddress.ip_address(text.partition("%")[0]).packed
    except ValueError:  # a name, or nothing: the id needs no true address, only a constant one
        return bytes(4)


# --- the message: checked, its properties written, its body compressed ----------------------------


_COMPRESSED = 1 | Compression.ZLIB << 8  # MessageSysFlag: compressed, and how
_BATCH_OVERHEAD = 22  # bytes a member of a batch takes beyond its body and properties


@dataclass(slots=True, eq=False)
class PendingSend(OutboxEntry):
    """One message in an outbox.

    `properties` is the text sent, but for the mark of a further attempt; `body` is compressed if
    `sys_flag` says so.
    """

    body: bytes = b""
    properties: str = ""
    message_id: str = ""
    future: SendFuture | SyncResult = field(default_factory=SendFuture)
    claimed: bool = False

    def claim(self) -> bool:
        """Make the future uncancellable; False if it was cancelled before."""
        if not self.claimed:
            self.claimed = self.future.claim()
        return self.claimed


def check_message(message: Message, max_body: int) -> None:
    """Check what only the send knows, and that it is a message.

    Raises:
        InvalidMessage: naming the field.
    """
    if not isinstance(message, Message):
        raise InvalidMessage(
            f"send takes a Message(topic, body, sharding_key=…), not {type(message).__name__}"
        )
    if len(message.body) > max_body:
        raise InvalidMessage(
            f"the body has {len(message.body)} bytes, at most {max_body} are allowed"
            " (ProducerConfig.max_message_size, and maxMessageSize of the broker)"
        )
    if message.properties is not NO_PROPERTIES:
        check_names(message.properties)


def properties_text(message: Message, message_id: str) -> str:
    """Write all properties of a message, the user's and ours.

    Raises:
        InvalidMessage: an empty value, 0x01, 0x02 or a lone surrogate, or more than 32473 bytes
            (the broker adds its own and refuses more than 32767; a further attempt has a mark).
    """
    found = stored_properties(message)
    found[names.UNIQ_KEY] = message_id
    found[names.WAIT] = "true"
    text = encode_properties(found)
    size = utf8_size(text)
    if size > MAX_SENT_PROPERTIES:
        raise InvalidMessage(
            f"the properties take {size} bytes, at most {MAX_SENT_PROPERTIES} are allowed;"
            " put large values into the body"
        )
    return text


def batch_size(body: bytes, properties: str) -> int:
    """Bytes the message takes in a batch, which may have to be sent again."""
    return _BATCH_OVERHEAD + len(body) + utf8_size(properties) + MARK_ROOM


def compressed(body: bytes, above: int) -> tuple[bytes, int]:
    """Compress a body longer than `above` bytes (0: never), if that makes it shorter.

    Returns:
        The body to send and its flags.
    """
    if above and len(body) > above:
        smaller = compress_zlib(body)
        if len(smaller) < len(body):
            return smaller, _COMPRESSED
    return body, 0


# --- the end of its future: once each, and nobody can stop it -------------------------------------
# The futures of `submit` have callbacks of the program's, so they end on threads of this library
# only. The result of a `send` that waits has none: it can be set by the thread that waits.


_log = get_logger("orderly.producer")
_callbacks = threading.local()


def succeed(entries: Iterable[tuple[PendingSend, SendResult]], *, first_time: bool) -> None:
    """Complete futures with their results.

    Args:
        entries: with their results.
        first_time: False: some may be complete already, or given up; they stay as they are.
    """
    for entry, result in entries:
        if isinstance(entry.future, SyncResult):
            entry.future.set_result(result)
        elif first_time or not entry.future.done():
            _complete(entry.future, entry.message_id, result)


def fail(failed: Iterable[tuple[PendingSend, OrderlyError]]) -> None:
    """Complete futures with errors; those cancelled in the meantime stay cancelled."""
    for entry, error in failed:
        if isinstance(entry.future, SyncResult):
            entry.future.set_exception(error)
        elif entry.claim():
            _complete(entry.future, entry.message_id, error)


def in_callback() -> bool:
    """Whether this thread is running callbacks of futures: it must not wait for others."""
    return getattr(_callbacks, "active", False)


def refuse_in_callback(method: str) -> None:
    """Refuse a call that would wait, on the thread whose work it would wait for.

    Raises:
        LifecycleError: called from a future's callback.
    """
    if in_callback():
        raise LifecycleError(
            f"{method}() inside a future's callback would wait for the thread it runs on; use"
            " submit() there, or hand the work to a thread of your own"
        )


def _complete(future: SendFuture, message_id: str, outcome: SendResult | OrderlyError) -> None:
    outer, _callbacks.active = in_callback(), True
    try:
        if isinstance(outcome, SendResult):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
    except BaseException as error:  # noqa: BLE001 - futures catch Exception; a SystemExit from a
        # user's callback must neither end a reader thread nor leave the next futures waiting
        fields = {"error": type(error).__name__, "stack": places(error)}  # its text may quote a key
        _log.error("send.callback_raised", message_id=message_id, **fields)
    finally:
        _callbacks.active = outer
