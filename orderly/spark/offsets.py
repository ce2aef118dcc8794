"""Offsets: ranges, what is lost of them, their JSON, and positions where reads begin and end.

Pure, but for the warning about what is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import Any

from orderly.config import check_group
from orderly.errors import ConfigError, DataLost
from orderly.log import get_logger
from orderly.model import MessageQueue


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Messages of one queue from `start` up to `end`, which is not among them.

    Attributes:
        queue: topic, broker name, queue id.
        start, end: queue offsets; equal: nothing.
    """

    queue: MessageQueue
    start: int
    end: int

    @property
    def messages(self) -> int:
        """How many offsets it covers."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue} [{self.start}, {self.end})"


def split(ranges: Iterable[QueueRange], at_least: int = 1) -> list[QueueRange]:
    """Cut ranges so that many tasks can read them side by side; empty ones are left out.

    A queue gets parts in proportion to its messages, all of its parts alike but for one message.

    Args:
        ranges: of different queues.
        at_least: how many parts to make; fewer if there are fewer messages.

    Returns:
        The parts, in the order of the ranges; at most one a queue more than `at_least`.
    """
    filled = [each for each in ranges if each.messages > 0]
    total = sum(each.messages for each in filled)
    wanted = min(at_least, total)
    return [part for each in filled for part in _cut(each, -(-each.messages * wanted // total))]


def _cut(whole: QueueRange, parts: int) -> list[QueueRange]:
    cuts = [whole.start + whole.messages * index // parts for index in range(parts + 1)]
    return [QueueRange(whole.queue, low, high) for low, high in pairwise(cuts)]


# --- what is lost ---------------------------------------------------------------------------------
# Messages that were to be read and are not there. Without a loss a range is read whole or not at
# all. A queue's log loses messages at its low end, when they expire; what is missing at its high
# end was cut off, or somebody deleted the topic and created it again.


EXPIRED = "expired at the broker before they were read"
CUT = "the queue ends before them: its log was cut, or the topic was recreated"
GONE = "the queue is no longer there, and its broker is"
_SHOWN_QUEUES = 5  # queues in an error's text


@dataclass(frozen=True, slots=True, order=True)
class OffsetSpan:
    """What a queue holds: its oldest message's offset, and the one its next message gets."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """Messages of one queue that can't be read any more.

    Attributes:
        queue: topic, broker name, queue id.
        start, end: their offsets; `end` is not among them.
        why: one of the texts above.
    """

    queue: MessageQueue
    start: int
    end: int
    why: str

    @property
    def messages(self) -> int:
        """How many offsets are gone."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue} [{self.start}, {self.end}): {self.why}"


def readable(wanted: QueueRange, span: OffsetSpan | None) -> tuple[QueueRange, tuple[Loss, ...]]:
    """Split a range into what its queue still holds, and what is lost.

    Args:
        wanted: offsets that were there when they were chosen.
        span: of the queue; None: the queue is gone.

    Returns:
        The part to read (maybe empty, never outside of `wanted`), and the losses beside it.
    """
    queue, start, end = wanted.queue, wanted.start, wanted.end
    if start >= end:
        return wanted, ()
    if span is None:
        return QueueRange(queue, end, end), (Loss(queue, start, end, GONE),)
    low = min(max(start, span.low), end)
    high = max(min(end, span.high), low)
    losses = (Loss(queue, start, low, EXPIRED), Loss(queue, high, end, CUT))
    return QueueRange(queue, low, high), tuple(loss for loss in losses if loss.messages)


def data_lost(losses: Sequence[Loss]) -> DataLost:
    """The error that names what is lost, most messages first."""
    worst = sorted(losses, key=lambda loss: (-loss.messages, loss))
    shown = "; ".join(map(str, worst[:_SHOWN_QUEUES]))
    rest = (
        f"; and of {len(worst) - _SHOWN_QUEUES} more queues" if len(worst) > _SHOWN_QUEUES else ""
    )
    return DataLost(
        f"{sum(loss.messages for loss in losses)} messages that were to be read are lost: {shown}"
        f"{rest}. Begin after them (startingOffsets), or set failOnDataLoss=false to read what is"
        " left and have the rest counted in a warning"
    )


_log = get_logger("orderly.spark")


def settle(losses: Sequence[Loss], *, fail: bool) -> None:
    """Raise, or warn and go on.

    Args:
        losses: what can't be read; may be empty.
        fail: the option failOnDataLoss.

    Raises:
        DataLost: there are losses, and `fail`.
    """
    if losses and fail:
        raise data_lost(losses)
    for loss in losses:
        warn_of(loss)


def warn_of(loss: Loss) -> None:
    """Warn of one loss."""
    _log.warning(
        "spark.data_lost",
        topic=loss.queue.topic,
        broker=loss.queue.broker_name,
        queue_id=loss.queue.queue_id,
        start=loss.start,
        end=loss.end,
        messages=loss.messages,
        why=loss.why,
    )


# --- offsets and queues as JSON -------------------------------------------------------------------
# The shape is `{"topic": {"broker": {"0": 123}}}`, the same in options, in checkpoints of streams
# and beside the result of a job.


EARLIEST, LATEST = -2, -1
"""The oldest message and the end, as in Spark's Kafka source."""
OffsetTable = dict[str, dict[str, Any]]

_OFFSETS_SHAPE = (
    '{"topic": {"broker": {"0": 123}}}, with -2 for the oldest message and -1 for the end'
)
_QUEUES_SHAPE = '{"topic": {"broker": [0, 1]}}'
_SHOWN = 80  # characters of a text that could not be read


def dump_offsets(offsets: Mapping[MessageQueue, int]) -> str:
    """Write offsets; equal offsets give equal texts."""
    return json.dumps(to_object(offsets), separators=(",", ":"))


def load_offsets(text: str, what: str = "offsets") -> dict[MessageQueue, int]:
    """Read offsets.

    Args:
        text: JSON.
        what: the option's name, for the error.

    Raises:
        ConfigError: it is no JSON, or of another shape; the text says where.
    """
    return from_object(_parsed(text, what, _OFFSETS_SHAPE), what)


def to_object(offsets: Mapping[MessageQueue, int]) -> OffsetTable:
    """Offsets as nested tables with texts as keys, sorted by queue."""
    table: OffsetTable = {}
    for queue, offset in sorted(offsets.items()):
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = (
            offset
        )
    return table


def from_object(value: object, what: str = "offsets") -> dict[MessageQueue, int]:
    """Read offsets from what `to_object` or a JSON parser made.

    Raises:
        ConfigError: another shape.
    """
    found: dict[MessageQueue, int] = {}
    for topic, broker, queues in _brokers(value, what, _OFFSETS_SHAPE):
        _require(isinstance(queues, dict), what, f"{topic}/{broker}", queues, _OFFSETS_SHAPE)
        for queue_id, offset in queues.items():
            where = f"{topic}/{broker}/{queue_id}"
            _require(
                queue_id.isascii() and queue_id.isdigit(), what, where, queue_id, _OFFSETS_SHAPE
            )
            _require(_is_int(offset) and offset >= EARLIEST, what, where, offset, _OFFSETS_SHAPE)
            found[MessageQueue(topic, broker, int(queue_id))] = offset
    return found


def dump_queues(queues: Iterable[MessageQueue]) -> str:
    """Write queues: `{"topic": {"broker": [0, 1]}}`."""
    table: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(set(queues)):
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return json.dumps(table, separators=(",", ":"))


def load_queues(text: str, what: str = "assign") -> frozenset[MessageQueue]:
    """Read queues.

    Raises:
        ConfigError: it is no JSON, of another shape, or names no queue.
    """
    found: set[MessageQueue] = set()
    for topic, broker, ids in _brokers(_parsed(text, what, _QUEUES_SHAPE), what, _QUEUES_SHAPE):
        _require(isinstance(ids, list), what, f"{topic}/{broker}", ids, _QUEUES_SHAPE)
        for queue_id in ids:
            _require(
                _is_int(queue_id) and queue_id >= 0,
                what,
                f"{topic}/{broker}",
                queue_id,
                _QUEUES_SHAPE,
            )
            found.add(MessageQueue(topic, broker, queue_id))
    if not found:
        raise ConfigError(f"{what} names no queue; write {_QUEUES_SHAPE}")
    return frozenset(found)


def _brokers(value: object, what: str, shape: str) -> Iterable[tuple[str, str, Any]]:
    _require(isinstance(value, dict), what, "the whole", value, shape)
    assert isinstance(value, dict)
    for topic, brokers in value.items():
        _require(isinstance(brokers, dict), what, topic, brokers, shape)
        for broker, content in brokers.items():
            yield topic, broker, content


def _parsed(text: str, what: str, shape: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise ConfigError(
            f"{what}={_shortened(text)} is not JSON ({error}); write {shape}"
        ) from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table; JSON parsers keep the last of two equal names, and drop an offset in silence."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError(f"a name occurs twice among {', '.join(name for name, _ in pairs)}")
    return table


def _require(condition: bool, what: str, where: str, value: object, shape: str) -> None:
    if not condition:
        raise ConfigError(f"{what}: {where} is {_shortened(json.dumps(value))}; write {shape}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# --- positions: where a read begins and ends in each queue ----------------------------------------
# As users write them. `discovering` asks the brokers what a position means for one queue.


_GROUP = "group:"
_FIRST_MILLIS, _LAST_MILLIS = 10**11, 10**14  # 1973 and 5138: seconds and dates are neither
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Edge(Enum):
    """One of a queue's two ends."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class TimePosition:
    """The first message stored at or after a time, in the broker's milliseconds since the epoch."""

    millis: int


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The offset that a consumer group has committed; the oldest message where it has none.

    Attributes:
        group: its name.
        unknown: where to start in a topic in which it has committed nothing; None: an error.
    """

    group: str
    unknown: Edge | None = None


@dataclass(frozen=True, slots=True)
class ExactPosition:
    """An offset for each queue.

    Attributes:
        offsets: by queue; -2 and -1 mean its ends.
        others: what holds for queues that are not named.
    """

    offsets: Mapping[MessageQueue, int]
    others: Edge

    def of(self, queue: MessageQueue) -> int | Edge:
        """The queue's offset, or the code of an end."""
        offset = self.offsets.get(queue)
        if offset is None:
            return self.others
        return _EDGES.get(offset, offset)


_EDGES = {EARLIEST: Edge.EARLIEST, LATEST: Edge.LATEST}
Position = Edge | TimePosition | GroupPosition | ExactPosition


def parse_offsets(text: str, what: str, others: Edge) -> Position:
    """Read a position that is no time.

    Args:
        text: "earliest", "latest", "group:NAME", or offsets as JSON.
        what: the option's name, for the error.
        others: what holds for queues that the JSON does not name.

    Raises:
        ConfigError: it is none of these.
    """
    word = text.strip()
    if word.lower() in (edge.value for edge in Edge):
        return Edge(word.lower())
    if word.startswith(_GROUP):
        return GroupPosition(check_group(word.removeprefix(_GROUP)))
    if word.startswith("{"):
        return ExactPosition(load_offsets(word, what), others)
    raise ConfigError(
        f"{what}={text!r} must be earliest, latest, group:NAME (what it has committed), or JSON"
        ' like {"topic": {"broker": {"0": 123}}}'
    )


def parse_moment(text: str, what: str) -> TimePosition:
    """Read a time: ISO 8601, or milliseconds since the epoch.

    A time without an offset is meant as this machine's clock shows it.

    Raises:
        ConfigError: neither, or a number that can only be meant as seconds or as a date.
    """
    word = text.strip()
    refusal = (
        f"{what}={text!r} must be an ISO 8601 time (2026-11-21T08:00:00+00:00) or milliseconds"
        " since the epoch"
    )
    try:
        if not word.isdecimal():
            return TimePosition(millis_of(datetime.fromisoformat(word).astimezone(UTC)))
        if _FIRST_MILLIS <= int(word) < _LAST_MILLIS:
            return TimePosition(int(word))
    except (ValueError, OverflowError) as error:
        raise ConfigError(refusal) from error
    raise ConfigError(refusal)


def millis_of(moment: datetime) -> int:
    """The first whole millisecond at or after a time; stores count in milliseconds.

    Args:
        moment: aware.
    """
    return -((_EPOCH - moment) // timedelta(milliseconds=1))
