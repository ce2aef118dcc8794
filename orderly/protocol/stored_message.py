"""Messages as a broker stores them: the body of a pull's reply, and back to bytes.

The layout is MessageDecoder's: a fixed head, the body, the topic, the properties. This is the
consumer's hot path: everything is checked, but only what a consumer itself needs is read; the rest
when somebody looks at it (5.8 -> 2.2 µs a message). Filtering by tag is the client's business.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntFlag
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from math import inf
from struct import Struct
from zlib import crc32

from orderly.errors import ProtocolError
from orderly.model import MessageQueue, ReceivedMessage, Rest, UndecodableMessage
from orderly.protocol.compression import decompress
from orderly.protocol.moments import milliseconds_of, moment_of
from orderly.protocol.properties import (
    ATTEMPT,
    INNER_NUM,
    UNIQ_KEY,
    decode_properties,
    decode_sharding_key,
    encode_properties,
)
from orderly.protocol.send import BatchMember, decode_batch

MAX_BODY = 64 * 1024 * 1024  # bytes, decompressed
MAX_MESSAGES = 65536  # in one pull, members of inner batches included
MOST_TRIES = 1_000_000  # that a sender can claim of its message; backoffs and brokers count on

# Bytes of memory beyond what was sent, measured on CPython and rounded up.
_PER_MESSAGE = 2048  # the usual properties included
_MANY = 512  # bytes of properties that are more than usual
_PER_PROPERTY = 150  # of those: two texts, and their place in a dict
_PER_TEXT_BYTE = 4  # of those: one wide character makes a whole text as wide

_NO_QUEUE = MessageQueue("", "", 1 << 32)  # equals none: a message's has 32 bits

_MARK, _IN_A_MARK = f"{ATTEMPT}\x01".encode(), ord("@")

MAGIC_V1 = 0xDAA320A7  # the topic's size takes one byte
MAGIC_V2 = 0xDAA320AB  # the topic's size takes two bytes


class SysFlag(IntFlag):
    """Bits of a message's `sys_flag` (MessageSysFlag); bits 8 to 10 hold its Compression."""

    COMPRESSED = 1
    BORN_HOST_V6 = 16
    STORE_HOST_V6 = 32
    NEED_UNWRAP = 64
    INNER_BATCH = 128


# Plain numbers, since each operation on an IntFlag makes an object.
_COMPRESSED = int(SysFlag.COMPRESSED)
_BORN_V6 = int(SysFlag.BORN_HOST_V6)
_STORE_V6 = int(SysFlag.STORE_HOST_V6)
_HOSTS_V6 = _BORN_V6 | _STORE_V6
_INNER_BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


class _Head:
    """The fixed part of a message, which depends on the sizes of two hosts.

    Attributes:
        size: bytes.
        checked: size, magic, checksum of the body, queue id, queue offset, sys flag, reconsume
            times, body size.
        whole: size, magic, checksum, queue id, flag, queue offset, physical offset, sys flag, born
            time, born host, store time, store host, reconsume times, transaction offset, body size.
    """

    __slots__ = ("checked", "size", "whole")

    def __init__(self, born_host: int, store_host: int) -> None:
        self.whole = Struct(f">iIiiiqqiq{born_host}sq{store_host}siqi")
        self.checked = Struct(f">iIii4xq8xi8x{born_host}x8x{store_host}xi8xi")
        self.size = self.whole.size

    def rest(self, data: bytes) -> Rest:
        """Read what `_Pull.read` left for later. It cannot fail: all sizes were checked."""
        (
            _, _, _, _, flag, _, offset, _, born_time, born_host, store_time, store_host, *_,
        ) = self.whole.unpack(data)  # fmt: skip
        return (
            f"{store_host.hex().upper()}{offset & 0xFFFFFFFFFFFFFFFF:016X}",
            moment_of(born_time),
            moment_of(store_time),
            host_to_text(born_host),
            host_to_text(store_host),
            flag,
            offset,
        )

    def properties(self, data: bytes) -> dict[str, str]:
        """Read the properties, by themselves, for they take longest."""
        return decode_properties(data)

    def sharding_key(self, data: bytes) -> str | None:
        """Read the sharding key of the properties."""
        return decode_sharding_key(data)


_HEADS = {
    0: _Head(8, 8),
    _BORN_V6: _Head(20, 8),
    _STORE_V6: _Head(8, 20),
    _HOSTS_V6: _Head(20, 20),
}
_HEAD_BITS = 39  # the byte of the head with the bits that say which of them it is
_QUEUE_OFFSET = Struct(">20xq")
_TOPIC_SIZES = {MAGIC_V1: Struct(">B"), MAGIC_V2: Struct(">h")}
_PROPERTIES_SIZE = Struct(">h")


def decode_messages(
    data: bytes | memoryview,
    broker_name: str,
    *,
    end: int | None = None,
    max_body: int = MAX_BODY,
) -> list[ReceivedMessage]:
    """Read stored messages, all of them: see `decode_pull`.

    Raises:
        ProtocolError: a size, magic number or checksum that is wrong, or more messages or bytes
            than one call may bring.
    """
    messages, left_at, _ = decode_pull(data, broker_name, end=end, max_body=max_body)
    if left_at is not None:
        raise ProtocolError(
            f"more than {MAX_MESSAGES} messages, or {4 * max_body} bytes of compressed bodies"
        )
    return messages


def decode_each(data: bytes, broker_name: str) -> Iterator[ReceivedMessage]:
    """Read stored messages of any queues and in any order, each by itself: no batch is unwrapped.

    One after the other: each may be as large as a pull's together.

    Raises:
        ProtocolError: a size, magic number or checksum that is wrong.
    """
    at = 0
    while at < len(data):
        one = data[at : at + int.from_bytes(data[at : at + 4])]
        try:
            end = queue_offset_at(one, 0) + 1
        except struct.error as error:
            raise ProtocolError(f"the stored message at byte {at} is broken: {error}") from error
        yield from decode_messages(one, broker_name, end=end)
        at += len(one)


def decode_pull(
    data: bytes | memoryview,
    broker_name: str,
    *,
    end: int | None = None,
    room: float = inf,
    max_body: int = MAX_BODY,
) -> tuple[list[ReceivedMessage], int | None, bool]:
    """Read the messages of a pull's reply, in their order.

    A body that cannot be read is that message's own trouble: it becomes an UndecodableMessage, and
    the others are read. Broken bytes around the bodies fail as a whole, for then no offset can be
    trusted. (Java drops what follows a broken message and moves the offset on.)

    A queue of type BatchCQ stores a batch as one message and gives it as many offsets as it has
    members: only then is it unwrapped. Anybody can mark a message as a batch; one that says
    another number than it has, or reaches over the next stored message, is a message whose body
    cannot be read. So no offset that a sender claims hides a message that the broker stored.

    Args:
        data: stored messages, one after the other.
        broker_name: the broker they came from; the messages do not say.
        end: the offset after the last of them, as the broker says it; None: not known.
        room: bytes of memory there are for what is unpacked; the first is read in any case.
        max_body: bytes a body may have once decompressed. What is unpacked in one call may have
            four times as many together.

    Returns:
        The messages; the offset of the first that was left for another pull, since together they
        are too many or too large (None: all are here); and whether some of them may be marked
        (`properties.mark`).

    Raises:
        ProtocolError: a size, magic number or checksum that is wrong.
    """
    pull = _Pull(bytes(data), broker_name, max_body, min(room, 4 * max_body), end)
    messages: list[ReceivedMessage] = []
    at = 0
    while at < len(pull.data):
        try:
            message, next_at = pull.read(at)
            members: Sequence[ReceivedMessage] = (message,)
            if message.sys_flag & _INNER_BATCH == _INNER_BATCH:
                members = pull.members(message, at, next_at)
        except _NoRoomLeft as full:
            return messages, full.queue_offset, pull.marked
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ProtocolError(f"the stored message at byte {at} is broken: {error}") from error
        if len(messages) + len(members) > MAX_MESSAGES:
            return messages, members[0].queue_offset, pull.marked
        messages.extend(members)
        at = next_at
    return messages, None, pull.marked


def queue_offset_at(data: bytes, at: int) -> int:
    """Read the queue offset of the stored message at a byte of `data`."""
    offset: int = _QUEUE_OFFSET.unpack_from(data, at)[0]
    return offset


class _NoRoomLeft(Exception):
    """A body that may be read in a pull of its own: in this one others took the bytes."""

    def __init__(self, queue_offset: int) -> None:
        super().__init__(queue_offset)
        self.queue_offset = queue_offset


_Why = tuple[str, bool]  # a body cannot be read; whether an extra would help


def _why(error: ProtocolError) -> _Why:
    """Not the error itself: it holds what was unpacked until the garbage collector runs."""
    return str(error), error.retriable


class _Pull:
    """One pull's bytes, and what its messages have in common: most often their queue."""

    __slots__ = (
        "broker_name",
        "data",
        "end",
        "marked",
        "max_body",
        "queue",
        "room",
        "topic_field",
        "unpacked",
    )

    def __init__(
        self, data: bytes, broker_name: str, max_body: int, room: float, end: int | None
    ) -> None:
        self.data = data
        self.broker_name = broker_name
        self.max_body = max_body
        self.room = room
        self.end = end
        self.unpacked = False
        self.marked = False
        self.queue = _NO_QUEUE
        self.topic_field = b""

    def members(self, batch: ReceivedMessage, at: int, next_at: int) -> Sequence[ReceivedMessage]:
        """Return the messages of a batch, read at `at`; itself if it cannot be read."""
        if isinstance(batch, UndecodableMessage):
            return (batch,)
        following = self.end
        if next_at < len(self.data):
            following = queue_offset_at(self.data, next_at)
        try:
            members = _unwrap(batch, following, 4 * self.max_body)
        except ProtocolError as error:
            return (self.read(at, _why(error))[0],)
        self.room -= sum([member.held_size for member in members])
        self.marked = self.marked or any(ATTEMPT in member.properties for member in members)
        return members

    def read(self, at: int, unreadable: _Why | None = None) -> tuple[ReceivedMessage, int]:
        """Return the message at `at`, and where the next one begins.

        Args:
            at: byte of the data.
            unreadable: why its body cannot be read, if that is known.
        """
        data = self.data
        head = _HEADS[data[at + _HEAD_BITS] & _HOSTS_V6]
        (
            size, magic, checksum, queue_id, queue_offset, sys_flag, reconsume_times, body_size,
        ) = head.checked.unpack_from(data, at)  # fmt: skip
        body_at = at + head.size
        body_end = body_at + body_size
        queue = self.queue
        if (
            magic != MAGIC_V1
            or body_size < 0
            or queue_id != queue.queue_id
            or not data.startswith(self.topic_field, body_end)
        ):
            queue = self._find_queue(magic, queue_id, body_end, body_size)
        topic_end = body_end + len(self.topic_field)
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(data, topic_end)
        properties_at = topic_end + 2
        end = properties_at + properties_size
        if properties_size < 0 or end != at + size or end > len(data):
            raise ProtocolError(
                f"the stored message at byte {at} of {len(data)} announces {size} bytes; its"
                f" parts take {end - at}"
            )
        if not 0 <= reconsume_times <= MOST_TRIES:
            reconsume_times = min(max(reconsume_times, 0), MOST_TRIES)
        body = data[body_at:body_end]
        if crc32(body) & 0x7FFFFFFF != checksum:
            raise ProtocolError(
                f"the body of the stored message at byte {at} is damaged; it says that it is at"
                f" offset {queue_offset} of {queue}"
            )
        if sys_flag & _COMPRESSED and unreadable is None:
            try:
                body = self._decompress(body, sys_flag, queue_offset)
                sys_flag &= ~_COMPRESSED
            except ProtocolError as error:
                unreadable = _why(error)
        held_size = size - body_size + len(body) + _PER_MESSAGE
        if properties_size > _MANY:
            held_size += _of_properties(properties_size, data.count(b"\x02", properties_at, end))
        text = data[properties_at:end]
        if _IN_A_MARK in text and _MARK in text:  # one byte is looked for ten times as fast
            self.marked = True
        message = ReceivedMessage.read_late(
            head,
            data[at:body_at],
            text,
            queue,
            queue_offset,
            body,
            reconsume_times,
            sys_flag,
            size,
            held_size,
        )
        if unreadable is not None:
            return UndecodableMessage(message, *unreadable), end
        return message, end

    def _find_queue(self, magic: int, queue_id: int, at: int, body_size: int) -> MessageQueue:
        """Read the topic at `at`, and keep it: most often the next message has the same."""
        topic_size_of = _TOPIC_SIZES.get(magic)
        if topic_size_of is None:
            raise ProtocolError(f"{magic:#010x} is not the magic number of a stored message")
        if body_size < 0:
            raise ProtocolError(f"a stored message announces a body of {body_size} bytes")
        (topic_size,) = topic_size_of.unpack_from(self.data, at)
        if topic_size <= 0:
            raise ProtocolError(f"a stored message announces a topic of {topic_size} bytes")
        topic_at = at + topic_size_of.size
        self.topic_field = self.data[at : topic_at + topic_size]
        topic = self.topic_field[topic_size_of.size :].decode()
        queue = MessageQueue(topic, self.broker_name, queue_id)
        self.queue = queue if magic == MAGIC_V1 else _NO_QUEUE
        return queue

    def _decompress(self, body: bytes, sys_flag: int, queue_offset: int) -> bytes:
        limit = self.max_body
        if self.unpacked:
            limit = max(0, int(min(limit, self.room)))
        self.unpacked = True
        try:
            result = decompress(sys_flag >> 8 & 7, body, limit)
        except ProtocolError:
            if limit < self.max_body:
                raise _NoRoomLeft(queue_offset) from None
            # So much work it may have been: zstd makes at most 32,768 bytes of one.
            self.room -= min(limit, len(body) << 15)
            raise
        self.room -= len(result)
        return result


def _unwrap(
    batch: ReceivedMessage, following: int | None, max_held: int
) -> Sequence[ReceivedMessage]:
    """Read the members of a batch.

    Args:
        batch: as it is stored.
        following: the offset of the next message that is stored in its queue; None: not known.
        max_held: bytes of memory they may take together.

    Raises:
        ProtocolError: it is broken, or not what the broker took it for.
    """
    found = decode_batch(batch.body)
    claimed = batch.properties.get(INNER_NUM)
    if claimed != str(len(found)):
        raise ProtocolError(f"a batch of {len(found)} messages says that it has {claimed}")
    if following is not None and batch.queue_offset + len(found) > following:
        raise ProtocolError(
            f"a batch of {len(found)} messages reaches over what is stored at offset {following}"
        )
    sizes = [_held(member) for member in found]
    if sum(sizes) > max_held:
        raise ProtocolError(f"a batch takes more than the {max_held} bytes of memory allowed")
    return [
        _member_of(batch, index, member, size)
        for index, (member, size) in enumerate(zip(found, sizes, strict=True))
    ]


def _held(member: BatchMember) -> int:
    text = member.properties
    return len(member.body) + _PER_MESSAGE + _of_properties(len(text), text.count("\x02"))


def _of_properties(size: int, count: int) -> int:
    return _PER_TEXT_BYTE * size + _PER_PROPERTY * count


def _member_of(
    batch: ReceivedMessage, index: int, member: BatchMember, held_size: int
) -> ReceivedMessage:
    properties = decode_properties(member.properties.encode())
    return batch.changed(
        queue_offset=batch.queue_offset + index,
        body=member.body,
        properties=properties,
        message_id=properties.get(UNIQ_KEY) or batch.offset_message_id,
        flag=member.flag,
        sys_flag=batch.sys_flag & ~_INNER_BATCH,
        held_size=held_size,
    )


def encode_stored_message(message: ReceivedMessage, *, magic: int = MAGIC_V1) -> bytes:
    """Write a message as a broker stores it: the other half of `decode_messages`.

    The body goes in as it is, so a compressed one needs SysFlag.COMPRESSED and its Compression in
    `message.sys_flag`. The bits of the hosts, sizes and the checksum are worked out here; ids
    follow from the properties and the store host.

    Raises:
        ProtocolError: a field that does not fit the layout.
        InvalidMessage: properties that no broker would store.
    """
    born_host, store_host = host_from_text(message.born_host), host_from_text(message.store_host)
    bits = _BORN_V6 if len(born_host) == IPV6_SIZE else 0
    bits |= _STORE_V6 if len(store_host) == IPV6_SIZE else 0
    try:
        topic = message.queue.topic.encode()
        properties = encode_properties(message.properties).encode()
        tail = b"".join(
            (
                message.body,
                _TOPIC_SIZES[magic].pack(len(topic)),
                topic,
                _PROPERTIES_SIZE.pack(len(properties)),
                properties,
            )
        )
        head = _HEADS[bits].whole.pack(
            _HEADS[bits].size + len(tail),
            magic,
            crc32(message.body) & 0x7FFFFFFF,
            message.queue.queue_id,
            message.flag,
            message.queue_offset,
            message.physical_offset,
            message.sys_flag & ~_HOSTS_V6 | bits,
            milliseconds_of(message.born_time),
            born_host,
            milliseconds_of(message.store_time),
            store_host,
            message.reconsume_times,
            0,
            len(message.body),
        )
    except (struct.error, UnicodeEncodeError) as error:
        raise ProtocolError(f"the message does not fit the stored layout: {error}") from error
    return head + tail


# --- host addresses: the bytes of an IP address, then a 32-bit port -------------------------------


IPV4_SIZE = 8
IPV6_SIZE = 20


def host_to_text(data: bytes) -> str:
    """Return "1.2.3.4:port" or "[::1]:port" for the 8 or 20 bytes of a host."""
    address, port = data[:-4], int.from_bytes(data[-4:], signed=True)
    if len(data) == IPV4_SIZE:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{port}"
    return f"[{IPv6Address(address)}]:{port}"


@lru_cache(maxsize=1024)  # a broker stores its own address with every message
def host_from_text(text: str) -> bytes:
    """Return the bytes of a host written as `host_to_text` does.

    Raises:
        ProtocolError: anything else.
    """
    host, _, port = text.rpartition(":")
    try:
        return ip_address(host.strip("[]")).packed + struct.pack(">i", int(port))
    except (ValueError, struct.error) as error:
        raise ProtocolError(f"{text!r:.80} is not an IP address and port") from error
