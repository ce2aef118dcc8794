"""JSON bodies of what a backlog is measured by: all committed offsets, ages, places in the log.

What brokers answer is read here; what they write is in `broker_bodies`. Offsets of topics and of
single groups are in `stats_bodies`.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import Any

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.json_values import (
    as_object,
    int_in,
    load_object,
    object_in,
    objects_in,
    queue_from_json,
)

_QUEUE_IDS = re.compile(r"(?:-?[0-9]{1,10}(?:,(?!$)|$))*", re.ASCII)
# An age of more than 31 years: the broker subtracted -1, its "no such message", from its clock.
_NO_MESSAGE = 10**12  # ms


def decode_committed(body: bytes) -> dict[tuple[str, str], dict[int, int]]:
    """Read the committed offsets of all groups on one broker (ConsumerOffsetManager).

    Returns:
        By group and topic, the offset by queue id; a queue that was never committed has none.

    Raises:
        ProtocolError: not such a table.
    """
    table = object_in(load_object(body), "offsetTable")
    committed = {}
    for name, offsets in table.items():
        topic, _, group = name.partition("@")
        if topic and group and "@" not in group:  # Java passes over other names, too
            committed[group, topic] = _by_queue(name, as_object(offsets, "a group's offsets"))
    return committed


def _by_queue(name: str, offsets: dict[str, Any]) -> dict[int, int]:
    # A broker has a hundred thousand of them, so they are checked together.
    if not _QUEUE_IDS.fullmatch(",".join(offsets)):
        raise ProtocolError(f"not all offsets of {name!r:.300} have the number of a queue")
    try:
        return dict(zip(map(int, offsets), array("q", offsets.values()), strict=True))
    except (ValueError, TypeError, OverflowError) as error:
        raise ProtocolError(f"the offsets of {name!r:.300} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """How old the messages of a queue are, all by the broker's clock (QueueTimeSpan).

    Attributes:
        oldest_at, newest_at: when the first and the last message there were stored; None: there
            is none.
        delay: seconds since the first one that the group has not finished was stored; 0.0: it has
            finished all; None: the broker does not know, since the group never committed, or that
            message was deleted.
    """

    oldest_at: float | None
    newest_at: float | None
    delay: float | None


def decode_time_spans(body: bytes) -> dict[MessageQueue, TimeSpan]:
    """Read the ages in a topic's queues; those that can only be read are not among them.

    Raises:
        ProtocolError: not an answer to GetTimeSpans (QueryConsumeTimeSpanBody).
    """
    return {
        queue_from_json(span.get("messageQueue")): TimeSpan(
            _moment(span, "minTimeStamp"), _moment(span, "maxTimeStamp"), _delay(span)
        )
        for span in objects_in(load_object(body), "consumeTimeSpanSet")
    }


def _moment(span: dict[str, Any], name: str) -> float | None:
    ms = int_in(span, name, -1)
    return ms / 1000 if ms >= 0 else None


def _delay(span: dict[str, Any]) -> float | None:
    ms = int_in(span, "delayTime", _NO_MESSAGE)
    return max(ms, 0) / 1000 if ms < _NO_MESSAGE else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is in the broker's log, for ViewMessage.

    `size` in bytes; `tags_code` is Java's hash of the tag, 0 without one.
    """

    physical_offset: int
    size: int
    tags_code: int


@dataclass(frozen=True, slots=True)
class ConsumeQueue:
    """A part of a queue: its oldest offset, its next one, and the places that were asked for."""

    minimum: int
    maximum: int
    entries: tuple[Place, ...]


def decode_consume_queue(body: bytes) -> ConsumeQueue | None:
    """Read the answer to QueryConsumeQueue (QueryConsumeQueueResponseBody).

    Returns:
        None: the index is below the minimum or not below the maximum (the answer is a success
        without a body). "eval": false in an entry means nothing: no group was asked about.

    Raises:
        ProtocolError: not such an answer.
    """
    if not body:
        return None
    fields = load_object(body)
    return ConsumeQueue(
        int_in(fields, "minQueueIndex"),
        int_in(fields, "maxQueueIndex"),
        tuple(map(_place, objects_in(fields, "queueData"))),
    )


def _place(fields: dict[str, Any]) -> Place:
    return Place(
        int_in(fields, "physicOffset"), int_in(fields, "physicSize"), int_in(fields, "tagsCode", 0)
    )
