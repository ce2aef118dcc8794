"""What a query's conditions spare: queues, offsets and times that need not be read.

Conditions are joined by AND. One is honoured if no row that fails it is ever handed on; Spark
checks the others again, row by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from orderly.model import MessageQueue
from orderly.protocol.heartbeat import ALL_TAGS
from orderly.spark.columns import COLUMNS
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.positions import millis_of

_TEXTS = frozenset({"msg_id", "uniq_key", "tag", "keys", "sharding_key"})
_PLAIN_TAG = re.compile(r"[^\s|*]+")
_LAST = 2**63 - 1


class Op(StrEnum):
    """How a column's value is compared."""

    IN = "in"
    BELOW = "<"
    UP_TO = "<="
    FROM = ">="
    ABOVE = ">"
    THERE = "is not null"


@dataclass(frozen=True, slots=True)
class Condition:
    """A column compared with values: several for IN, none for THERE, else one."""

    column: str
    op: Op
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is left to read.

    Attributes:
        only: by column, the values that rows may have.
        low, high: queue offsets, `high` is not among them.
        since, until: milliseconds since the epoch between which, at least, a row was stored;
            None: no limit.
    """

    only: dict[str, frozenset[Any]] = field(default_factory=dict)
    low: int = 0
    high: int = _LAST
    since: int | None = None
    until: int | None = None

    def takes(self, queue: MessageQueue) -> bool:
        """Whether a queue may have rows."""
        places = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
        return all(
            place in self.only.get(column, frozenset({place})) for column, place in places.items()
        )

    def cut(self, ranges: Iterable[QueueRange]) -> list[QueueRange]:
        """Ranges without what no row needs, by queue and offset."""
        cut = (
            QueueRange(each.queue, max(each.start, self.low), min(each.end, self.high))
            for each in ranges
            if self.takes(each.queue)
        )
        return [each for each in cut if each.messages > 0]

    def tags(self) -> str:
        """The tags that rows may have, for the broker; "*": any."""
        values = self.only.get("tag")
        if not values or not all(_PLAIN_TAG.fullmatch(value) for value in values):
            return ALL_TAGS
        return "||".join(sorted(values))

    def texts(self) -> dict[str, frozenset[str]]:
        """By column, the texts that rows may have; the reader compares them."""
        return {name: values for name, values in self.only.items() if name in _TEXTS}


def narrow(sofar: Narrowing, condition: Condition) -> tuple[Narrowing, bool]:
    """Take a condition into account.

    Returns:
        The narrowing, and whether the condition is honoured and needs no second look.
    """
    column, op = condition.column, condition.op
    if op is Op.THERE:
        return sofar, column in sofar.only or not COLUMNS[column].nullable
    if column == "queue_offset" and op is not Op.IN:
        return _by_offset(sofar, op, condition.values[0]), True
    if column == "queue_offset":
        return _among_offsets(sofar, condition.values), False
    if column == "store_ts" and op is not Op.IN:
        return _by_time(sofar, op, condition.values[0]), False
    if op is Op.IN and (column in _TEXTS or column in ("topic", "broker", "queue_id")):
        allowed = frozenset(value for value in condition.values if value is not None)
        both = sofar.only.get(column, allowed) & allowed
        return replace(sofar, only=sofar.only | {column: both}), True
    return sofar, False


def _by_offset(sofar: Narrowing, op: Op, value: int) -> Narrowing:
    if op in (Op.FROM, Op.ABOVE):
        return replace(sofar, low=max(sofar.low, value + (op is Op.ABOVE)))
    return replace(sofar, high=min(sofar.high, value + (op is Op.UP_TO)))


def _among_offsets(sofar: Narrowing, values: tuple[Any, ...]) -> Narrowing:
    known = [value for value in values if value is not None]
    if not known:
        return replace(sofar, high=0)
    return _by_offset(_by_offset(sofar, Op.FROM, min(known)), Op.UP_TO, max(known))


def _by_time(sofar: Narrowing, op: Op, value: datetime) -> Narrowing:
    """A limit that no fitting row lies beyond: a store's clock has milliseconds."""
    millis = millis_of(value)
    if op in (Op.FROM, Op.ABOVE):
        return replace(sofar, since=max(sofar.since or 0, millis))
    until = millis + 1  # also what was stored in that millisecond; Spark decides
    return replace(sofar, until=until if sofar.until is None else min(sofar.until, until))
