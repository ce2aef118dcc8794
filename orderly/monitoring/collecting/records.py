"""State records of groups that keep order by key, read as an onlooker: not by pulling.

The newest record says which messages above the committed offset are finished, and which keys are
parked. What counts is decided as for the queue's next owner (`ordering.state.history`).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from orderly.errors import BrokerError, OrderlyError, ProtocolError
from orderly.log import get_logger, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.reading import NEVER, NOT_READ, QueueRecord, Scan
from orderly.monitoring.collecting.asking import Asking
from orderly.monitoring.collecting.heads import Found, Stretch, read_stretches
from orderly.ordering.calls import Call, ReadRecords, RecordsRead, converse
from orderly.ordering.state.history import History, State
from orderly.ordering.state.runs import above
from orderly.ordering.state.topic import STATE_PREFIX, park_topic, state_topic
from orderly.protocol.park_record import read_parked

_log = get_logger("orderly.monitoring")
_BLOCK = 4  # records; each is a request, and most often the newest entry and its last but one do
_OLDEST_LOOKED_AT = 8  # parked keys whose messages are looked at for when they were parked
_state_topic = lru_cache(maxsize=65536)(state_topic)
_park_topic = lru_cache(maxsize=65536)(park_topic)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was read of a queue's state; it holds until the state queue's maximum changes.

    Attributes:
        minimum, maximum: of the state queue then.
        state: the newest one; None: there is none.
        lost: it is not known what is on record: it is damaged, or was deleted by age.
        parked_since: when the first message of the longest parked keys was parked (seconds since
            the epoch).
        at: when it was read (seconds since the epoch).
    """

    minimum: int
    maximum: int
    state: State | None
    lost: bool
    parked_since: float | None
    at: float


@dataclass(frozen=True, slots=True)
class Row:
    """A source queue in a scan: what its group has committed, or NEVER; minimum and maximum."""

    group: str
    queue: MessageQueue
    minimum: int
    committed: int
    maximum: int


def rows_by_key(scan: Scan, groups: Container[str]) -> Iterator[Row]:
    """The queues in which some groups keep order by key, as far as they can be judged.

    Args:
        scan: of now.
        groups: that may do so; who never did has no state topic, and is left out.
    """
    if not any(STATE_PREFIX in topic for topic in scan.topics):
        return
    for (group, topic), committed in scan.committed.items():
        reading = scan.topics.get(topic)
        if reading is None or group not in groups or not has_state(scan, group, topic):
            continue
        for queue, start, at, end in zip(
            reading.queues, reading.minimum, committed, reading.maximum, strict=True
        ):
            if min(start, end) >= 0 and at >= NEVER:
                yield Row(group, queue, start, at, end)


def span_of(scan: Scan, queue: MessageQueue) -> tuple[int, int] | None:
    """Minimum and maximum of a queue of a state or park topic; (0, 0) if there is none of it.

    None: it could not be read.
    """
    reading = scan.topics.get(queue.topic)
    if reading is None or queue not in reading.queues:
        return 0, 0
    place = reading.queues.index(queue)
    span = reading.minimum[place], reading.maximum[place]
    return None if NOT_READ in span else span


def state_queue(group: str, queue: MessageQueue) -> MessageQueue:
    """Where the state of a queue is: on the same broker, with the same number."""
    return replace(queue, topic=_state_topic(group, queue.topic))


def park_queue(group: str, queue: MessageQueue) -> MessageQueue:
    """Where the messages of its parked keys are."""
    return replace(queue, topic=_park_topic(group, queue.topic))


def has_state(scan: Scan, group: str, topic: str) -> bool:
    """Whether a group has kept order by key in a topic."""
    return _state_topic(group, topic) in scan.topics


def read_record(asking: Asking, scan: Scan, group: str, queue: MessageQueue) -> Recorded:
    """Read the newest state of a queue.

    Raises:
        OrderlyError: it cannot be read now, or a newer release wrote it.
    """
    records = state_queue(group, queue)
    span = span_of(scan, records)
    if span is None:
        raise OrderlyError(f"the offsets of {records} could not be read")
    minimum, maximum = span
    perform = partial(_records_read, asking, minimum)
    state, damaged = converse(History(records, maximum, _BLOCK).newest(before=maximum), perform)
    park_span = span_of(scan, park_queue(group, queue))
    may_be_parked = park_span is None or park_span[0] < park_span[1]
    deleted = state is None and minimum > 0 and may_be_parked
    since = None if state is None else _parked_since(asking, group, queue, state)
    return Recorded(minimum, maximum, state, damaged or deleted, since, scan.at)


def _records_read(asking: Asking, minimum: int, call: Call) -> RecordsRead:
    assert isinstance(call, ReadRecords), "a history reads, and nothing else"
    start = max(call.offset, minimum)
    (found,) = read_stretches(asking, [Stretch(call.queue, start, _BLOCK)])
    if isinstance(found, OrderlyError):
        raise found
    return RecordsRead(_bodies(found), start + len(found), minimum)


def _bodies(found: Found) -> tuple[tuple[int, bytes], ...]:
    """What can be read; what the broker has no message for is left out, as if damaged."""
    bodies = []
    for message in found:
        if isinstance(message, ReceivedMessage):
            bodies.append((message.queue_offset, message.raw_body))
        elif not isinstance(message, BrokerError | ProtocolError) or message.retriable:
            raise message
    return tuple(bodies)


def _parked_since(asking: Asking, group: str, queue: MessageQueue, state: State) -> float | None:
    """When the messages at which the longest parked keys begin were parked."""
    positions = sorted({key.at for key in state.kept.parked})[:_OLDEST_LOOKED_AT]
    parked = park_queue(group, queue)
    found = read_stretches(asking, [Stretch(parked, position) for position in positions])
    moments = [moment for each in found if (moment := _parked_at(each)) is not None]
    return min(moments, default=None)


def _parked_at(found: Found | OrderlyError) -> float | None:
    first = None if isinstance(found, OrderlyError) else next(iter(found), None)
    if not isinstance(first, ReceivedMessage):
        return None
    try:
        return read_parked(first).details.parked_at
    except ProtocolError:  # nobody's
        return None


def record_of(recorded: Recorded, row: Row, *, new: bool) -> QueueRecord | None:
    """What a record means for the offsets of now; None: it is not known.

    A record is written before its `low` is committed. So an offset that is neither that nor the
    one before, nor one that a killed broker may come back with, was set by somebody, or is plain
    progress with nothing finished ahead: what was finished above counts no more (see
    `ordering.state.inheritance.resume`).

    Args:
        recorded: as read.
        row: the source queue in this scan.
        new: it was read in this scan, after the committed offset: it may be ahead of that.
    """
    state, minimum, committed, maximum = (
        recorded.state,
        row.minimum,
        row.committed,
        row.maximum,
    )
    if recorded.lost:
        return None
    if state is None:
        if committed == NEVER:
            return None
        start = max(committed, minimum)
        return QueueRecord(max(0, maximum - start), start)
    entry = state.entry
    ours = (entry.low, entry.previous_low, *entry.window, NEVER)  # NEVER: the broker forgot it
    counts = committed in ours or (new and committed < entry.low)
    start = max(entry.low if counts else committed, minimum)
    finished = sum(
        min(end, maximum) - begin
        for begin, end in (above(state.runs, start) if counts else ())
        if begin < maximum
    )
    unfinished = max(0, maximum - start) - finished
    return QueueRecord(unfinished, start, state.kept.parked, recorded.parked_since)


class Records:
    """The state records that were read, each until there is a newer one. One thread at a time.

    Args:
        asked: groups that come first.
    """

    def __init__(self, asked: Collection[str]) -> None:
        self._asked = asked
        self._known: dict[tuple[str, MessageQueue], Recorded] = {}

    def ask(self, asking: Asking, scan: Scan, rows: Iterable[Row], most: int) -> None:
        """Read those of which there is a newer one, whoever was read longest ago first.

        Args:
            asking: of the scan.
            scan: its offsets.
            rows: all queues with order by key; others are forgotten.
            most: how many are read now, beside those of groups that come first.
        """
        queues = [(row.group, row.queue) for row in rows]
        self._known = {place: self._known[place] for place in queues if place in self._known}
        outdated = [place for place in queues if self._outdated(scan, *place)]
        outdated.sort(key=self._read_at)
        first = [place for place in outdated if place[0] in self._asked]
        others = [place for place in outdated if place[0] not in self._asked]
        for group, queue in first + others[:most]:
            try:
                self._known[group, queue] = read_record(asking, scan, group, queue)
            except OrderlyError as error:
                self._known.pop((group, queue), None)
                _log.warning("record.not_read", **where(group, queue), error=str(error))

    def of(self, row: Row, scan: Scan) -> QueueRecord | None:
        """What is known of a queue; None: nothing."""
        recorded = self._known.get((row.group, row.queue))
        return None if recorded is None else record_of(recorded, row, new=recorded.at == scan.at)

    def newest(self, group: str, queue: MessageQueue) -> Recorded | None:
        """What was read of a queue's state; None: nothing."""
        return self._known.get((group, queue))

    def _outdated(self, scan: Scan, group: str, queue: MessageQueue) -> bool:
        known, span = self._known.get((group, queue)), span_of(scan, state_queue(group, queue))
        return known is None or (span is not None and span[1] != known.maximum)

    def _read_at(self, place: tuple[str, MessageQueue]) -> float:
        known = self._known.get(place)
        return 0.0 if known is None else known.at
