"""What lies in a group's park topics and among its dead letters, read as cases of failure. Pure.

A parked message tells what failed, by this library's own record. A dead letter tells only where it
came from: the topic, the sender's id, how often it was tried. Its place there it does not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa

from orderly.consumer.parking.setting_aside import BEHIND
from orderly.errors import ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.dead_letters import DeadLetter
from orderly.namespace import DEAD_PREFIX
from orderly.ordering.state.topic import park_topic
from orderly.protocol import properties as names
from orderly.protocol.park_record import Parked, Unknown, read_park

COLUMNS = (
    "topic", "broker", "queue_id", "queue_offset", "msg_id", "uniq_key", "born_ts", "store_ts",
    "reconsume_times", "store_size", "body", "properties",
)  # fmt: skip
"""Of the source, which are needed."""

_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("stored_topic", pa.string()),
        ("stored_broker", pa.string()),
        ("stored_queue_id", pa.int32()),
        ("stored_offset", pa.int64()),
        ("at", _TIME),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("origin_ts", _TIME),
        ("key", pa.string()),
        ("key_is_int", pa.bool_()),
        ("tag", pa.string()),
        ("message_id", pa.string()),
        ("attempts", pa.int32()),
        ("cause", pa.string()),
        ("sample", pa.string()),
        ("body", pa.binary()),
    ]
)
_NO_CAUSE = "no reason told"
_SAMPLE = 200  # characters


class CaseKind(StrEnum):
    """What a case is."""

    PARKED = "parked"  # it failed, and its key waits behind it
    BEHIND = "behind"  # it did not fail; an earlier one of its key did
    DEAD = "dead"  # it was given up, and its key went on
    UNREADABLE = "unreadable"  # foreign, damaged, or a newer release's


def cases(
    batches: Iterable[pa.RecordBatch], group: str, *, bodies: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read messages of the topics; commands, their results and tombstones give no case.

    Args:
        batches: with COLUMNS.
        group: the consumer group, as the broker names it.
        bodies: whether cases keep the message's body.

    Returns:
        Batches of SCHEMA.
    """
    for batch in batches:
        found = [_case(_message(row), group) for row in batch.to_pylist()]
        rows = [case for case in found if case is not None]
        if not bodies:
            rows = [case | {"body": None} for case in rows]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _case(stored: ReceivedMessage, group: str) -> dict[str, Any] | None:
    if stored.queue.topic.startswith(DEAD_PREFIX):
        return _place(stored) | _dead(stored)
    try:
        record = read_park(stored)
    except ProtocolError:
        return _place(stored) | _unreadable(stored)
    if isinstance(record, Parked) and _belongs(record, stored.queue, group):
        return _place(stored) | _parked(record)
    is_strange = isinstance(record, Parked | Unknown)
    return _place(stored) | _unreadable(stored) if is_strange else None


def _belongs(record: Parked, stored: MessageQueue, group: str) -> bool:
    """Whether it came from the source queue of this park queue: anybody may write there."""
    source = record.original.queue
    of_queue = (source.broker_name, source.queue_id) == (stored.broker_name, stored.queue_id)
    return of_queue and park_topic(group, source.topic) == stored.topic


def _place(stored: ReceivedMessage) -> dict[str, Any]:
    queue = stored.queue
    return {
        "stored_topic": queue.topic,
        "stored_broker": queue.broker_name,
        "stored_queue_id": queue.queue_id,
        "stored_offset": stored.queue_offset,
    }


def _parked(record: Parked) -> dict[str, Any]:
    original, details = record.original, record.details
    waits = details.attempts == 0 and details.reason in {BEHIND.reason, ""}
    told = details.last_error or details.first_error or details.reason
    return {
        "kind": CaseKind.BEHIND if waits else CaseKind.PARKED,
        "at": _micros(details.parked_at),
        "topic": original.queue.topic,
        "broker": original.queue.broker_name,
        "queue_id": original.queue.queue_id,
        "queue_offset": original.queue_offset,
        "origin_ts": _micros(original.store_time),
        "key": str(record.key),
        "key_is_int": isinstance(record.key, int),
        "tag": original.tags,
        "message_id": original.message_id,
        "attempts": details.attempts,
        "cause": None if waits else details.fingerprint or details.reason or _NO_CAUSE,
        "sample": told[:_SAMPLE],
        "body": original.body,
    }


def _dead(stored: ReceivedMessage) -> dict[str, Any]:
    letter = DeadLetter(stored)
    tag = f", tag {stored.tags}" if stored.tags else ""
    return {
        "kind": CaseKind.DEAD,
        "at": _micros(stored.store_time),
        "topic": letter.topic,
        "key": stored.sharding_key,
        "key_is_int": False,
        "tag": stored.tags,
        "message_id": letter.message_id,
        "attempts": _attempts(stored),
        "cause": f"dead letters of {letter.topic or 'an unknown topic'}{tag}",
        "sample": "",
        "body": stored.body,
    }


def _attempts(stored: ReceivedMessage) -> int:
    """Reconsume times as the last sender counted them."""
    text = stored.properties.get(names.RECONSUME_TIME, "")
    return min(int(text), 1 << 30) if text.isascii() and text.isdigit() else stored.reconsume_times


def _unreadable(stored: ReceivedMessage) -> dict[str, Any]:
    return {"kind": CaseKind.UNREADABLE, "at": _micros(stored.store_time), "attempts": 0}


def _message(row: Mapping[str, Any]) -> ReceivedMessage:
    return ReceivedMessage(
        queue=MessageQueue(row["topic"], row["broker"], row["queue_id"]),
        queue_offset=row["queue_offset"],
        body=row["body"],
        properties=dict(row["properties"]),
        message_id=row["uniq_key"] or row["msg_id"],
        offset_message_id=row["msg_id"],
        born_time=_seconds(row["born_ts"]),
        store_time=_seconds(row["store_ts"]),
        born_host="",
        store_host="",
        reconsume_times=row["reconsume_times"],
        flag=0,
        sys_flag=0,
        physical_offset=0,
        stored_size=row["store_size"],
    )


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
