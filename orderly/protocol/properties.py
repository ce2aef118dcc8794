"""A message's properties: the names RocketMQ uses, and the text they travel in.

The text is `name 0x01 value 0x02` repeated (MessageDecoder.messageProperties2String). Which
properties a producer sets is its own business; here is only what the wire can carry.
"""

from __future__ import annotations

from collections.abc import Mapping

from orderly.errors import InvalidMessage, ProtocolError

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
UNIQ_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
CLUSTER = "CLUSTER"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
UNREAD = "ORDERLY_UNREAD"  # ours, of a dead letter whose body could not be read: its flags
ATTEMPT = "ORDERLY_ATTEMPT"  # ours, of a message that is sent again; see `mark`

# Names a client or a broker acts upon, overwrites or removes (MessageConst): no user's.
RESERVED: frozenset[str] = frozenset(
    {
        KEYS, TAGS, WAIT, UNIQ_KEY, SHARDING_KEY, DELAY, RETRY_TOPIC, ORIGIN_MESSAGE_ID,
        RECONSUME_TIME, MAX_RECONSUME_TIMES, REAL_TOPIC, REAL_QUEUE_ID, MIN_OFFSET, MAX_OFFSET,
        CLUSTER, MSG_REGION, TRACE_ON, INNER_NUM, INNER_BASE, ATTEMPT,
        "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID",
        "CHECK_IMMUNITY_TIME_IN_SECONDS", "CONSUME_START_TIME", "CORRECTION_FLAG",
        "CORRELATION_ID", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DUP_INFO",
        "EXTEND_UNIQ_INFO", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "INSTANCE_ID",
        "MQ2_FLAG", "MSG_TYPE", "PGROUP", "POP_CK", "POP_CK_OFFSET", "PROPERTY_FORWARD_QUEUE_ID",
        "PUSH_REPLY_TIME", "REDIRECT", "REPLY_TO_CLIENT", "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS",
        "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "TRACE_CONTEXT",
        "TRANSACTION_CHECK_TIMES", "TRANSFER_FLAG", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET",
        "TTL", "_SYS_MSG_PRIORITY_", "__BORNHOST", "__CRC32#", "__LITE_TOPIC",
        "__transactionId__",
    }
)  # fmt: skip

MAX_PROPERTIES_BYTES = 32767  # the length is a signed 16-bit number
_BROKERS_SHARE = 256  # bytes the broker may add: region, trace, the cluster's name
_NAME_END = "\x01"
_VALUE_END = "\x02"


def mark(attempt: int, born: int) -> str:
    """Write the value of ATTEMPT: "2@1764331200000".

    Args:
        attempt: which attempt of its send this is, from 2.
        born: the message's born time, milliseconds since the epoch. A program that sends a received
            message again takes all properties along, but the message is born anew: the mark is not
            that one's.
    """
    return f"{attempt}@{born}"


def marked(text: str, attempt: int, born: int) -> str:
    """Write the properties of a message that is sent again: `text`, and its mark."""
    return f"{text}{ATTEMPT}{_NAME_END}{mark(attempt, born)}{_VALUE_END}"


def attempt_of(properties: Mapping[str, str], born: int) -> int:
    """Say which attempt of a send of ours a stored message is: 1 without a mark of its own.

    Args:
        properties: the message's.
        born: its born time, milliseconds since the epoch.
    """
    attempt, _, at = properties.get(ATTEMPT, "").partition("@")
    ours = at == str(born) and len(attempt) <= _DIGITS and attempt.isascii() and attempt.isdecimal()
    return int(attempt) if ours else 1


_DIGITS = 7  # of an attempt's number
_LARGEST = marked("", 10**_DIGITS - 1, 10**13 - 1)
MARK_ROOM = len(_LARGEST)  # bytes; what can be sent once can be sent again
MAX_SENT_PROPERTIES = MAX_PROPERTIES_BYTES - _BROKERS_SHARE - MARK_ROOM


def properties_size(properties: Mapping[str, str]) -> int:
    """Bytes that `properties` take in a send request, of which MAX_SENT_PROPERTIES are taken."""
    return sum(
        len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace")) + 2
        for name, value in properties.items()
    )


def encode_properties(properties: Mapping[str, str]) -> str:
    """Write `properties` as the text a send request carries.

    Raises:
        InvalidMessage: a name or value that is empty (the broker drops it), holds 0x01 or 0x02
            (the broker splits it) or a lone surrogate; or more than 32767 bytes altogether.
    """
    text = _joined(properties)
    if not _can_be_split(text, len(properties)):
        for name, value in properties.items():
            _check(name, "name", name)
            _check(name, "value", value)
    try:
        size = utf8_size(text)
    except UnicodeEncodeError as error:
        raise InvalidMessage(
            f"the properties hold a lone surrogate ({error.object[error.start]!r});"
            " only text that can be written as UTF-8 can be sent"
        ) from error
    if size > MAX_PROPERTIES_BYTES:
        raise InvalidMessage(
            f"the properties take {size} bytes, at most {MAX_PROPERTIES_BYTES} can be sent;"
            " put large values into the body"
        )
    return text


def utf8_size(text: str) -> int:
    """Bytes of a text in UTF-8; raises UnicodeEncodeError for a lone surrogate."""
    return len(text) if text.isascii() else len(text.encode())


def _joined(properties: Mapping[str, str]) -> str:
    try:
        text = _VALUE_END.join(map(_NAME_END.join, properties.items()))
    except TypeError:  # not all are text; the check of each says which
        return ""
    return text + _VALUE_END if text else text


def _can_be_split(text: str, count: int) -> bool:
    """Whether the text holds `count` pairs and nothing is empty: all checks at once."""
    return (
        text.count(_NAME_END) == text.count(_VALUE_END) == count
        and "\x01\x02" not in text
        and "\x02\x01" not in text
        and not text.startswith(_NAME_END)
    )


def _check(name: str, part: str, text: str) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidMessage(f"property {name!r}: the {part} must be a non-empty str, not {text!r}")
    if _NAME_END in text or _VALUE_END in text:
        raise InvalidMessage(
            f"property {name!r}: the {part} holds \\x01 or \\x02, which separate properties"
        )


def decode_properties(data: bytes) -> dict[str, str]:
    """Read the properties of a stored message.

    As Java does: bytes that are no UTF-8 become U+FFFD, and an entry without a name, a value or
    the separator between them is left out. A message of another client must not block a queue.

    Raises:
        ProtocolError: more than 32767 bytes.
    """
    if len(data) > MAX_PROPERTIES_BYTES:
        raise ProtocolError(f"properties of {len(data)} bytes; at most {MAX_PROPERTIES_BYTES}")
    text = str(data, "utf-8", "replace")
    pairs = [entry.partition(_NAME_END) for entry in text.split(_VALUE_END)]
    return {name: value for name, _, value in pairs if name and value}


_SHARDING_KEY_AT = f"{SHARDING_KEY}{_NAME_END}".encode()


def decode_sharding_key(data: bytes) -> str | None:
    """Read the sharding key only, as `decode_properties` does.

    An orderly consumer by key reads it of each message, and a handler often nothing else.
    """
    at = data.rfind(_SHARDING_KEY_AT)  # the last one's value counts
    if at < 0:
        return None
    value_at = at + len(_SHARDING_KEY_AT)
    end = data.find(b"\x02", value_at)
    value = data[value_at:] if end < 0 else data[value_at:end]
    if not value or (at and data[at - 1] != 2):  # no entry, or not the one that counts
        return decode_properties(data).get(SHARDING_KEY)
    return str(value, "utf-8", "replace")
