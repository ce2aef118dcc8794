"""State records of groups that keep order by key, and topics that were made anew.

Read as an onlooker: not by pulling. The newest record says which messages above the committed
offset are finished, and which keys are parked. What counts is decided as for the queue's next
owner (`ordering.state_records`).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from orderly.errors import BrokerError, OrderlyError, ProtocolError
from orderly.log import get_logger, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.reading import (
    NEVER,
    NOT_READ,
    QueueRecord,
    Recreation,
    Scan,
    TopicReading,
)
from orderly.monitoring.collecting.heads import Found, OffsetRange, read_ranges
from orderly.monitoring.collecting.questions import Asking
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
from orderly.ordering.topic_names import STATE_PREFIX, park_topic, state_topic
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
    state: RecordedState | None
    lost: bool
    parked_since: float | None
    at: float


@dataclass(frozen=True, slots=True)
class ScannedQueue:
    """A source queue in a scan: what its group has committed, or NEVER; minimum and maximum."""

    group: str
    queue: MessageQueue
    minimum: int
    committed: int
    maximum: int


def queues_by_key(scan: Scan, groups: Container[str]) -> Iterator[ScannedQueue]:
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
                yield ScannedQueue(group, queue, start, at, end)


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


# --- topics that were deleted and made anew, and whether groups went on there ---------------------
# A lower maximum, an offset that vanished or went back, a topic that was away for a scan: each is
# a suspicion, and has other causes, too. The proof is that of the consumers
# (`ordering.generation`): a message that the queue had is not there any more, and the lowest one
# was stored after it. What it had is on the state record, or an earlier scan saw it. Without a
# proof nothing is said.


_KEEP = 3600.0  # seconds for which is remembered what vanished, and what was found
_MOST = 64  # queues that are looked at in a scan: four requests each at the most

GroupQueue = tuple[str, MessageQueue]  # a group, and a queue of a topic that it consumes


@dataclass(slots=True)
class _Topic:
    """A topic as it was last seen."""

    reading: TopicReading
    at: float


@dataclass(slots=True)
class _Positions:
    """Where a group stands in a topic's queues, and when it was seen.

    Attributes:
        queues: of the topic.
        read: its offsets as they were read.
        stood: the same, with the last one that is known where one vanished or was not read.
        at: when.
    """

    queues: tuple[MessageQueue, ...]
    read: tuple[int, ...]
    stood: tuple[int, ...]
    at: float

    def same(self, queues: tuple[MessageQueue, ...], read: tuple[int, ...]) -> bool:
        """Whether a scan shows nothing else."""
        return self.read == read and self.queues == queues


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A queue that may be of a new generation: a message it had, and where groups stood then."""

    landmark: Landmark
    positions: Mapping[str, int]
    at: float


class Generations:
    """What scans saw of topics that were made anew. One thread at a time."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._positions: dict[tuple[str, str], _Positions] = {}
        self._suspects: dict[MessageQueue, _Suspect] = {}
        self._recorded: dict[GroupQueue, _OfRecord] = {}
        self._found: dict[GroupQueue, Recreation] = {}

    def look(
        self, asking: Asking, scan: Scan, rows: Iterable[ScannedQueue], records: Records
    ) -> dict[str, dict[MessageQueue, Recreation]]:
        """Compare a scan with those before, ask about what is suspicious; returns what is known.

        Args:
            asking: of the scan.
            scan: its offsets.
            rows: the queues in which a group keeps order by key.
            records: their state records, as read in this scan or before.
        """
        self._suspect(scan)
        self._remember(scan)
        self._settle_suspects(asking, scan)
        self._compare_records(asking, scan, rows, records)
        self._follow(scan)
        found: dict[str, dict[MessageQueue, Recreation]] = {}
        for (group, queue), recreation in self._found.items():
            found.setdefault(group, {})[queue] = recreation
        return found

    # --- suspicions ----------------------------------------------------------------------------

    def _suspect(self, scan: Scan) -> None:
        """Note each queue that is not what it was, with what was seen of it before."""
        odd: dict[str, set[MessageQueue]] = {}
        for name in {topic for _, topic in scan.committed}:
            known, reading = self._topics.get(name), scan.topics.get(name)
            if known is not None and reading is not None:
                odd.setdefault(name, set()).update(_shrunk(known.reading, reading))
        for key, committed in scan.committed.items():
            before, reading = self._positions.get(key), scan.topics.get(key[1])
            if before is not None and reading is not None and before.read != committed:
                odd.setdefault(key[1], set()).update(_set_back(before, reading, committed))
        for name, queues in odd.items():
            if new := queues - self._suspects.keys():
                self._add_suspects(name, new, scan.at)

    def _add_suspects(self, topic: str, odd: Collection[MessageQueue], at: float) -> None:
        known = self._topics.get(topic)
        stood = {
            group: dict(zip(positions.queues, positions.stood, strict=True))
            for (group, consumed), positions in self._positions.items()
            if consumed == topic
        }
        for queue in odd:
            landmark = None if known is None else _last_of(known.reading, queue)
            if landmark is not None:
                positions = {group: offsets.get(queue, NEVER) for group, offsets in stood.items()}
                self._suspects[queue] = _Suspect(landmark, positions, at)

    def _remember(self, scan: Scan) -> None:
        """What could not be read, or vanished, stays as it was: for an hour if it is gone."""
        for name in {topic for _, topic in scan.committed} & scan.topics.keys():
            self._topics[name] = _Topic(_merged(self._topics.get(name), scan.topics[name]), scan.at)
        for key, committed in scan.committed.items():
            reading, before = scan.topics.get(key[1]), self._positions.get(key)
            if reading is None:
                continue
            if before is not None and before.same(reading.queues, committed):
                before.at = scan.at
            else:
                stood = _known_last(before, reading, committed)
                self._positions[key] = _Positions(reading.queues, committed, stood, scan.at)
        self._topics = {n: it for n, it in self._topics.items() if scan.at - it.at <= _KEEP}
        self._positions = {k: it for k, it in self._positions.items() if scan.at - it.at <= _KEEP}
        self._suspects = {q: it for q, it in self._suspects.items() if scan.at - it.at <= _KEEP}

    def _settle_suspects(self, asking: Asking, scan: Scan) -> None:
        """Look at suspects; one that cannot be looked at now comes last in the next scan."""
        spans = ((queue, _span(scan, queue)) for queue in list(self._suspects))
        there = ((queue, span) for queue, span in spans if span is not None)
        for queue, span in islice(there, _MOST):
            suspect = self._suspects.pop(queue)
            try:
                proven = _proven(asking, queue, span, suspect.landmark)
            except OrderlyError:
                self._suspects[queue] = suspect
                continue
            for group, position in suspect.positions.items() if proven else ():
                if position >= 0:
                    self._found[group, queue] = Recreation(position, scan.at)

    # --- state records -------------------------------------------------------------------------

    def _compare_records(
        self, asking: Asking, scan: Scan, rows: Iterable[ScannedQueue], records: Records
    ) -> None:
        """Note where the newest state record is of a former generation, or the first of a new one.

        Only where the offset vanished, is beyond the end, or the queue was found to be anew: else
        the record says what its owner did.
        """
        known, self._recorded = self._recorded, {}
        asked = 0
        for row in rows:
            place = row.group, row.queue
            recorded, old = records.newest(*place), known.get(place)
            if recorded is None or recorded.state is None or recorded.lost:
                if old is not None:
                    self._recorded[place] = old
                continue
            found = self._found.get(place)
            odd = not 0 <= row.committed <= row.maximum
            now = _of_record(recorded.state, row, old)
            if now.former is None and (odd or (found and not found.gone_on_at)) and asked < _MOST:
                asked += 1
                now = _asked(asking, now, row.queue)
            self._recorded[place] = now
            at = scan.at if found is None or found.gone_on_at else found.at
            if now.former:
                self._found[place] = Recreation(now.low, at, recorded=True)
            elif old is not None and now.generation > old.generation:
                self._found[place] = Recreation(old.low, at, moved=True)
        for place, found in self._found.items():
            on_record = self._recorded.get(place)
            if found.recorded and not (on_record and on_record.former):
                self._found[place] = replace(found, recorded=False)

    # --- what became of it ---------------------------------------------------------------------

    def _follow(self, scan: Scan) -> None:
        """Note which groups have gone on in the new generation, and forget what is long over."""
        for place, found in list(self._found.items()):
            if found.recorded:
                continue
            if scan.at - (found.gone_on_at or found.at) > _KEEP:
                del self._found[place]
                continue
            if found.gone_on_at is not None:
                continue
            group, queue = place
            span, committed = _span(scan, queue), _committed(scan, group, queue)
            if span is None or committed < 0 or committed > span[1]:
                continue
            moved = found.moved or committed != found.position
            went_on = moved and (committed > span[0] or committed == span[1])
            at = scan.at if went_on else None
            self._found[place] = replace(found, moved=moved, gone_on_at=at)


# --- columns -------------------------------------------------------------------------------------


def _shrunk(before: TopicReading, now: TopicReading) -> Iterator[MessageQueue]:
    """Queues that end before where they ended."""
    if before.maximum == now.maximum and before.queues == now.queues:
        return
    ended = dict(zip(before.queues, before.maximum, strict=True))
    for queue, end in zip(now.queues, now.maximum, strict=True):
        if 0 <= end < ended.get(queue, 0):
            yield queue


def _set_back(
    before: _Positions, reading: TopicReading, committed: tuple[int, ...]
) -> Iterator[MessageQueue]:
    """Queues in which a group's offset vanished, or went back."""
    stood = dict(zip(before.queues, before.stood, strict=True))
    for queue, offset in zip(reading.queues, committed, strict=True):
        if NEVER <= offset < stood.get(queue, NEVER):
            yield queue


def _known_last(
    before: _Positions | None, reading: TopicReading, committed: tuple[int, ...]
) -> tuple[int, ...]:
    """Offsets as they were read, or the last ones that are known."""
    if before is None or min(committed, default=0) >= 0:
        return committed
    old = dict(zip(before.queues, before.stood, strict=True))
    columns = zip(reading.queues, committed, strict=True)
    return tuple(at if at >= 0 else old.get(queue, at) for queue, at in columns)


def _last_of(reading: TopicReading, queue: MessageQueue) -> Landmark | None:
    """The last message that a queue had; None: it had none, or when it came is not known."""
    if queue not in reading.queues:
        return None
    place = reading.queues.index(queue)
    end, stored_at = reading.maximum[place], reading.stored_at[place]
    return Landmark(end - 1, round(stored_at * 1000)) if end > 0 and stored_at > 0 else None


def _merged(known: _Topic | None, reading: TopicReading) -> TopicReading:
    """A reading, with what was known where a broker did not answer now."""
    if known is None or min(reading.maximum, default=0) >= 0:
        return reading
    before = known.reading
    old = {
        queue: (before.minimum[n], before.maximum[n], before.stored_at[n])
        for n, queue in enumerate(before.queues)
    }
    columns = zip(reading.queues, reading.minimum, reading.maximum, reading.stored_at, strict=True)
    rows = [
        old.get(q, (low, end, at)) if end < 0 else (low, end, at) for q, low, end, at in columns
    ]
    minimum, maximum, stored_at = (tuple(column) for column in zip(*rows, strict=True))
    return replace(reading, minimum=minimum, maximum=maximum, stored_at=stored_at)


def _span(scan: Scan, queue: MessageQueue) -> tuple[int, int] | None:
    """Minimum and maximum of a queue; None: not read."""
    reading = scan.topics.get(queue.topic)
    if reading is None or queue not in reading.queues:
        return None
    place = reading.queues.index(queue)
    span = reading.minimum[place], reading.maximum[place]
    return span if min(span) >= 0 else None


def _committed(scan: Scan, group: str, queue: MessageQueue) -> int:
    reading, offsets = scan.topics.get(queue.topic), scan.committed.get((group, queue.topic))
    if reading is None or offsets is None or queue not in reading.queues:
        return NEVER
    return offsets[reading.queues.index(queue)]


# --- the proof -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OfRecord:
    """What a state record says of the generation it was written in.

    Attributes:
        stored: its offset in the state queue.
        span: of the source queue when it was compared.
        generation, low, landmark: as recorded.
        former: whether it is of a former generation; None: nobody asked.
    """

    stored: int
    span: tuple[int, int]
    generation: int
    low: int
    landmark: Landmark | None
    former: bool | None = None


def _of_record(state: RecordedState, row: ScannedQueue, old: _OfRecord | None) -> _OfRecord:
    """With what was found out before: a proof holds as long as the record is the newest."""
    entry, span = state.entry, (row.minimum, row.maximum)
    landmark = None if entry.landmark is None else Landmark(*entry.landmark)
    former = None
    if old is not None and old.stored == state.offset and (old.former or old.span == span):
        former = old.former
    return _OfRecord(state.offset, span, entry.generation, entry.low, landmark, former)


def _asked(asking: Asking, record: _OfRecord, queue: MessageQueue) -> _OfRecord:
    """Find out whether a record is of a former generation; as it is if that cannot be known now."""
    try:
        former = _proven(asking, queue, record.span, record.landmark)
    except OrderlyError:
        return record
    return replace(record, former=former)


def _proven(
    asking: Asking, queue: MessageQueue, span: tuple[int, int], landmark: Landmark | None
) -> bool:
    """Whether a queue is of a later generation than a message that it had.

    Raises:
        OrderlyError: that cannot be known now.
    """
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
