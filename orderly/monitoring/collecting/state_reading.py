"""State records of groups that keep order by key, and the proof that a topic was recreated.

Read as an onlooker: not by pulling. The newest record says which messages above the committed
offset are finished, and which keys are parked. What counts is decided as for the queue's next
owner (`ordering.state_records`). A scan without such groups, and without a suspicion, needs none of
this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from orderly.errors import BrokerError, OrderlyError, ProtocolError
from orderly.log import get_logger, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.reading import NEVER, NOT_READ, QueueRecord, Scan
from orderly.monitoring.collecting.assembly import ScannedQueue, known_state_topic
from orderly.monitoring.collecting.questions import Asking
from orderly.monitoring.collecting.traceless_reading import Found, OffsetRange, read_ranges
from orderly.ordering.broker_calls import (
    Call,
    MinOffset,
    Peek,
    Peeked,
    ReadRecords,
    RecordsRead,
    converse,
)
from orderly.ordering.fence import Landmark, landmark_of, new_minimum
from orderly.ordering.offset_runs import above
from orderly.ordering.state_records import RecordedState, StateReader
from orderly.ordering.topic_names import park_topic
from orderly.protocol.park_record import read_parked

_log = get_logger("orderly.monitoring")
_BLOCK = 4  # records; each is a request, and most often the newest entry and its last but one do
_OLDEST_LOOKED_AT = 8  # parked keys whose messages are looked at for when they were parked
_park_topic = lru_cache(maxsize=65536)(park_topic)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was read of a queue's state; it holds until the state queue's maximum changes.

    Attributes:
        minimum, maximum: of the state queue then.
        state: the newest one; None: no state.
        lost: it is not known what is on record: it is damaged, or was deleted by age.
        parked_since: when the first message of the longest parked keys was parked (seconds since
            the epoch).
        at: when it was read (seconds since the epoch).
    """

    minimum: int
    maximum: int
    state: RecordedState | None
    lost: bool
    parked_since: float | None
    at: float


def span_of(scan: Scan, queue: MessageQueue) -> tuple[int, int] | None:
    """Minimum and maximum of a queue of a state or park topic; (0, 0) if it does not exist.

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
    return replace(queue, topic=known_state_topic(group, queue.topic))


def park_queue(group: str, queue: MessageQueue) -> MessageQueue:
    """Where the messages of its parked keys are."""
    return replace(queue, topic=_park_topic(group, queue.topic))


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
    state, damaged = converse(StateReader(records, maximum, _BLOCK).newest(before=maximum), perform)
    park_span = span_of(scan, park_queue(group, queue))
    may_be_parked = park_span is None or park_span[0] < park_span[1]
    deleted = state is None and minimum > 0 and may_be_parked
    since = None if state is None else _parked_since(asking, group, queue, state)
    return Recorded(minimum, maximum, state, damaged or deleted, since, scan.at)


def _records_read(asking: Asking, minimum: int, call: Call) -> RecordsRead:
    assert isinstance(call, ReadRecords), "a history reads, and nothing else"
    start = max(call.offset, minimum)
    (found,) = read_ranges(asking, [OffsetRange(call.queue, start, _BLOCK)])
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


def _parked_since(
    asking: Asking, group: str, queue: MessageQueue, state: RecordedState
) -> float | None:
    """When the messages at which the longest parked keys begin were parked."""
    positions = sorted({key.at for key in state.kept.parked})[:_OLDEST_LOOKED_AT]
    parked = park_queue(group, queue)
    found = read_ranges(asking, [OffsetRange(parked, position) for position in positions])
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


def record_of(recorded: Recorded, row: ScannedQueue, *, new: bool) -> QueueRecord | None:
    """What a record means for the offsets of now; None: it is not known.

    A record is written before its `low` is committed. So an offset that is neither that nor the
    one before, nor one that a killed broker may come back with, was set by somebody, or is plain
    progress with nothing finished ahead: what was finished above counts no more (see
    `ordering.ownership.resume`).

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

    def ask(self, asking: Asking, scan: Scan, rows: Iterable[ScannedQueue], most: int) -> None:
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

    def of(self, row: ScannedQueue, scan: Scan) -> QueueRecord | None:
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


# --- the proof that a queue was recreated ---------------------------------------------------------


def is_anew(
    asking: Asking, queue: MessageQueue, span: tuple[int, int], had: tuple[int, int] | None
) -> bool:
    """Whether a queue is of a later generation than a message that it had.

    Args:
        asking: of the scan.
        queue: of a source topic.
        span: its minimum and maximum.
        had: the message's offset, and when it was stored (ms); None: none is known.

    Raises:
        OrderlyError: that cannot be known now.
    """
    landmark = None if had is None else Landmark(*had)
    perform = partial(_perform, asking, span)
    return converse(new_minimum(queue, landmark), perform) is not None


def _perform(asking: Asking, span: tuple[int, int], call: Call) -> Any:
    """Answer without a pull: brokers count those, and make groups of them."""
    minimum, maximum = span
    if isinstance(call, MinOffset):
        return minimum
    assert isinstance(call, Peek), "the proof looks, and nothing else"
    if not minimum <= call.offset < maximum:
        return Peeked(None, maximum)
    (found,) = read_ranges(asking, [OffsetRange(call.queue, call.offset)])
    first = found if isinstance(found, OrderlyError) else next(iter(found), None)
    if isinstance(first, ReceivedMessage):
        return Peeked(landmark_of(first).stored_at, maximum)
    if first is None or (isinstance(first, BrokerError | ProtocolError) and not first.retriable):
        return Peeked(None, maximum)
    raise first
