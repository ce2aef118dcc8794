"""To send: headers, batch bodies, unique message ids, and the request that makes a dead letter.

On the wire a send is a frame (`frame`: lengths, then the header, then the body). The header here
becomes its text fields (`ext`), and a message's properties one of these (`properties`).

Which messages go into a batch, and the checks of a message, are the producer's business.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct
from typing import ClassVar, NamedTuple

from orderly.errors import ProtocolError
from orderly.model import ReceivedMessage, UndecodableMessage
from orderly.namespace import RETRY_PREFIX, first_topic
from orderly.protocol import properties as names
from orderly.protocol.codes import RequestCode
from orderly.protocol.compression import sent_body
from orderly.protocol.ext import to_ext, wire
from orderly.protocol.frame import RemotingCommand, request


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage:
    """One message (SendMessageRequestHeaderV2); the body is the payload, maybe compressed.

    `born_timestamp` is milliseconds since the epoch. `default_topic` is the topic whose settings
    an automatically created one takes.
    """

    code: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE_V2

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c", default="TBW102")
    default_topic_queue_nums: int = wire("d", default=4)
    queue_id: int = wire("e")
    sys_flag: int = wire("f", default=0)
    born_timestamp: int = wire("g")
    flag: int = wire("h", default=0)
    properties: str | None = wire("i", default=None)
    reconsume_times: int | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: int | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBatch(SendMessage):
    """Several messages for one queue; the body is what `encode_batch` makes.

    Proxies before 5.3.3 look for the broker's name of a batch where all requests but sends have it
    (apache/rocketmq issue 9294).
    """

    code: ClassVar[RequestCode] = RequestCode.SEND_BATCH_MESSAGE

    batch: bool | None = wire("m", default=True)
    broker_name: str | None = wire("n", repeated="bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReply:
    """Where the message was stored.

    For a batch `msg_id` holds all ids, joined by commas, and `queue_offset` is the first one's;
    the others follow without a gap.
    """

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None


MAX_BATCH = 65536  # messages; bounds what a body full of the smallest ones can become

_HEAD = Struct(">iiiii")  # size, magic and checksum (both 0: the broker sets them), flag, body size
_PROPERTIES_SIZE = Struct(">h")
_OVERHEAD = _HEAD.size + _PROPERTIES_SIZE.size


class BatchMember(NamedTuple):
    """One message of a batch; `properties` is the text `encode_properties` makes."""

    body: bytes
    properties: str
    flag: int = 0


def encode_batch(messages: Iterable[tuple[bytes, str, int]]) -> bytes:
    """Write the body of a batch: (body, properties, flag) of each message, in order.

    The broker stores them with consecutive offsets. All are for one topic and one queue, and each
    needs a UNIQ_KEY of its own.

    Raises:
        ProtocolError: properties over 32767 bytes, or text that cannot be written as UTF-8.
    """
    parts: list[bytes] = []
    for body, text, flag in messages:
        try:
            properties = text.encode()
            parts += (
                _HEAD.pack(_OVERHEAD + len(body) + len(properties), 0, 0, flag, len(body)),
                body,
                _PROPERTIES_SIZE.pack(len(properties)),
                properties,
            )
        except (struct.error, UnicodeEncodeError) as error:
            raise ProtocolError(f"a message does not fit into a batch: {error}") from error
    return b"".join(parts)


def decode_batch(data: bytes) -> list[BatchMember]:
    """Read the body of a batch. Properties that are not UTF-8 get U+FFFD, as in Java.

    Raises:
        ProtocolError: a size that does not fit, bytes left over, or over 65536 messages.
    """
    members: list[BatchMember] = []
    at = 0
    while at < len(data):
        if len(members) == MAX_BATCH:
            raise ProtocolError(f"a batch of more than {MAX_BATCH} messages")
        member, at = _member(data, at)
        members.append(member)
    return members


def _member(data: bytes, at: int) -> tuple[BatchMember, int]:
    try:
        size, _, _, flag, body_size = _HEAD.unpack_from(data, at)
        body_end = at + _HEAD.size + body_size
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(data, max(body_end, 0))
    except struct.error as error:
        raise ProtocolError(f"a batch is cut at byte {at} of {len(data)}") from error
    fits = body_size >= 0 and properties_size >= 0 and at + size <= len(data)
    if not fits or size != _OVERHEAD + body_size + properties_size:
        raise ProtocolError(
            f"a message of a batch announces {size} bytes, {body_size} of them body and"
            f" {properties_size} properties; {len(data) - at} are left"
        )
    properties = data[body_end + _PROPERTIES_SIZE.size : at + size]
    body = data[at + _HEAD.size : body_end]
    return BatchMember(body, str(properties, "utf-8", "replace"), flag), at + size


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """The parts of a unique message id.

    `milliseconds` counts from the start of the month in which the id was made.
    """

    ip: bytes
    pid: int
    process_hash: int
    milliseconds: int
    counter: int


_KEY_TAIL = Struct(">HIIH")  # pid, process hash, milliseconds, counter
_IP_SIZES = (4, 16)
_DAY = 24 * 60 * 60  # seconds


def unique_key(ip: bytes, pid: int, process_hash: int, now: float, counter: int) -> str:
    """Make a message's id (UNIQ_KEY), laid out as MessageClientIDSetter does.

    Unique while one process makes fewer than 65536 a millisecond. The month starts in UTC here,
    in local time in Java; nothing but tracing tools reads it.

    Args:
        ip: 4 or 16 bytes.
        pid: the process id; its low 16 bits are kept.
        process_hash: any number of this process; its low 32 bits are kept.
        now: seconds since the epoch.
        counter: counts up with each id; its low 16 bits are kept.
    """
    milliseconds = int(now * 1000) - _month_began(int(now // _DAY))
    tail = _KEY_TAIL.pack(pid & 0xFFFF, process_hash & 0xFFFFFFFF, milliseconds, counter & 0xFFFF)
    return (ip + tail).hex().upper()


@lru_cache(2)
def _month_began(day: int) -> int:
    """Milliseconds since the epoch at the start of the month of a day, counted since the epoch."""
    moment = datetime.fromtimestamp(day * _DAY, UTC).replace(day=1)
    return int(moment.timestamp()) * 1000


def parse_unique_key(text: str) -> UniqueKey:
    """Read a message id back.

    Raises:
        ProtocolError: not 32 or 56 hexadecimal digits; such an id may still be valid, since
            clients may choose their own.
    """
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise ProtocolError(f"{text!r:.80} is not a unique key: not hexadecimal") from error
    ip, tail = data[: -_KEY_TAIL.size], data[-_KEY_TAIL.size :]
    if len(ip) not in _IP_SIZES:
        raise ProtocolError(f"{text!r:.80} is not a unique key: neither 32 nor 56 digits")
    return UniqueKey(ip, *_KEY_TAIL.unpack(tail))


# --- a dead letter, as the Java client makes it ---------------------------------------------------
# It is an ordinary send to `%RETRY%<group>`; the broker turns it into `%DLQ%<group>` because the
# count is over the limit (SendMessageProcessor.handleRetryAndDLQ). Administration tools then show
# it as they show Java's. Sent to another broker than the message's own it could land in the retry
# topic and come back out of order: the caller sends it to the queue's own master.


INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
_TRANSACTION = "TRAN_MSG"


def dead_letter_request(
    group: str, message: ReceivedMessage, broker_name: str, now: float
) -> RemotingCommand:
    """Write the send that ends in `%DLQ%<group>`.

    The limit sent is the message's own count and the count sent is one more: brokers that compare
    with "over" and those that compare with "at or over" agree (apache/rocketmq issue 6163).

    Args:
        group: the consumer group.
        message: as it was received; body, flag and properties are kept.
        broker_name: of the message's own queue.
        now: seconds since the epoch, the dead letter's born time.

    Raises:
        InvalidMessage: its properties with those of a dead letter are too long to be sent.
    """
    count = message.reconsume_times
    body, sys_flag = sent_body(message)
    header = SendMessage(
        producer_group=INNER_PRODUCER,
        topic=RETRY_PREFIX + group,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=int(now * 1000),
        flag=message.flag,
        properties=names.encode_properties(_properties(message)),
        reconsume_times=count + 1,
        max_reconsume_times=count,
        broker_name=broker_name,
    )
    return request(header.code, to_ext(header), body)


def _properties(message: ReceivedMessage) -> dict[str, str]:
    # Java sends a level of DELAY, too. Brokers before 5.0 follow it: a dead letter appears late.
    # The mark is of the message: its dead letter is born anew.
    left_out = (_TRANSACTION, names.DELAY, names.ATTEMPT)
    kept = {k: v for k, v in message.properties.items() if k not in left_out and v}
    origin = message.properties.get(names.ORIGIN_MESSAGE_ID) or message.message_id
    if isinstance(message, UndecodableMessage):
        kept[names.UNREAD] = str(message.sys_flag)
    return kept | {
        names.RETRY_TOPIC: first_topic(
            message.queue.topic, message.properties.get(names.RETRY_TOPIC)
        ),
        names.ORIGIN_MESSAGE_ID: origin,
        names.RECONSUME_TIME: str(message.reconsume_times + 1),
        names.MAX_RECONSUME_TIMES: str(message.reconsume_times),
    }
