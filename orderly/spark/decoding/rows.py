"""Rows one by one, from messages read by `stored_message`: right for every message, and slow.

What is decoded in bulk is held to this; what cannot be, comes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.properties import KEYS, SHARDING_KEY, TAGS, UNIQ_KEY
from orderly.spark.columns import COLUMNS
from orderly.spark.decoding.wanted import Wanted

# The first and the last moment of Spark's and Python's calendars, in milliseconds since the epoch:
# a sender may claim any 64-bit number.
FIRST_TIME, LAST_TIME = -62_135_596_800_000, 253_402_300_799_999

_NUMBER = re.compile(r"(-?)0*([0-9]{1,19})")  # as many digits as the largest 64-bit number has
_INT64 = range(-(2**63), 2**63)


def rows_of(
    messages: Sequence[ReceivedMessage], queue: MessageQueue, wanted: Wanted
) -> pa.RecordBatch:
    """A row for each message."""
    arrays = [
        pa.array(
            [_value(name, message, queue, wanted) for message in messages], COLUMNS[name].arrow
        )
        for name in wanted.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted.schema)


def _value(name: str, message: ReceivedMessage, queue: MessageQueue, wanted: Wanted) -> Any:
    if name == "seq":
        return number_in(message.properties.get(wanted.seq_property))
    if name in _OF_QUEUE:
        return _OF_QUEUE[name](queue)
    return _OF_MESSAGE[name](message)


def number_in(text: str | None) -> int | None:
    """The 64-bit number that a property is, in decimal digits; None if it is none."""
    match = _NUMBER.fullmatch(text or "")
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if number in _INT64 else None


def _microseconds(seconds: float) -> int:
    return min(max(round(seconds * 1000), FIRST_TIME), LAST_TIME) * 1000


# A message knows its topic and queue, too; those asked are what a range of offsets counts in.
_OF_QUEUE: dict[str, Callable[[MessageQueue], Any]] = {
    "topic": lambda queue: queue.topic,
    "broker": lambda queue: queue.broker_name,
    "queue_id": lambda queue: queue.queue_id,
}

_OF_MESSAGE: dict[str, Callable[[ReceivedMessage], Any]] = {
    "queue_offset": lambda message: message.queue_offset,
    "msg_id": lambda message: message.offset_message_id,
    "uniq_key": lambda message: message.properties.get(UNIQ_KEY),
    "tag": lambda message: message.properties.get(TAGS),
    "keys": lambda message: message.properties.get(KEYS),
    "sharding_key": lambda message: message.properties.get(SHARDING_KEY),
    "born_ts": lambda message: _microseconds(message.born_time),
    "store_ts": lambda message: _microseconds(message.store_time),
    "reconsume_times": lambda message: message.reconsume_times,
    "sys_flag": lambda message: message.sys_flag,
    "store_size": lambda message: message.stored_size,
    "commitlog_offset": lambda message: message.physical_offset,
    "body": lambda message: message.body,
    "properties": lambda message: list(message.properties.items()),
}
