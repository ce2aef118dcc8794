"""Topics that were recreated, and whether groups went on there.

A lower maximum, an offset that vanished or went back, a topic that was away for a scan: each is a
suspicion, and has other causes, too. The proof is that of the consumers (`ordering.fence`): a
message that the queue had is not there any more, and the lowest one was stored after it. What it
had is on the state record, or an earlier scan saw it. Without a proof nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import NEVER, Recreation, Scan, TopicReading
from orderly.monitoring.collecting.assembly import ScannedQueue
from orderly.monitoring.collecting.questions import Asking

if TYPE_CHECKING:
    from orderly.monitoring.collecting.state_reading import Recorded
    from orderly.ordering.state_records import RecordedState

_KEEP = 3600.0  # seconds for which is remembered what vanished, and what was found
_MOST = 64  # queues that are looked at in a scan: four requests each at the most

GroupQueue = tuple[str, MessageQueue]  # a group, and a queue of a topic that it consumes
LastMessage = tuple[int, int]  # of a queue: its offset, and when it was stored (ms)
Newest = Callable[[str, MessageQueue], "Recorded | None"]


@dataclass(slots=True)
class _Topic:
    """A topic as it was last seen."""

    reading: TopicReading
    at: float


@dataclass(slots=True)
class _Positions:
    """A group's position in a topic's queues, and when it was seen.

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

    had: LastMessage
    positions: Mapping[str, int]
    at: float


class Generations:
    """What scans saw of topics that were recreated. One thread at a time."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._positions: dict[tuple[str, str], _Positions] = {}
        self._suspects: dict[MessageQueue, _Suspect] = {}
        self._recorded: dict[GroupQueue, _OfRecord] = {}
        self._found: dict[GroupQueue, Recreation] = {}

    def look(
        self, asking: Asking, scan: Scan, rows: Iterable[ScannedQueue], newest: Newest
    ) -> dict[str, dict[MessageQueue, Recreation]]:
        """Compare a scan with those before, ask about what is suspicious; returns what is known.

        Args:
            asking: of the scan.
            scan: its offsets.
            rows: the queues in which a group keeps order by key.
            newest: gives the state record of one, as read in this scan or before.
        """
        self._suspect(scan)
        self._remember(scan)
        self._settle_suspects(asking, scan)
        self._compare_records(asking, scan, rows, newest)
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
            had = None if known is None else _last_of(known.reading, queue)
            if had is not None:
                positions = {group: offsets.get(queue, NEVER) for group, offsets in stood.items()}
                self._suspects[queue] = _Suspect(had, positions, at)

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
                proven = _is_anew(asking, queue, span, suspect.had)
            except OrderlyError:
                self._suspects[queue] = suspect
                continue
            for group, position in suspect.positions.items() if proven else ():
                if position >= 0:
                    self._found[group, queue] = Recreation(position, scan.at)

    # --- state records -------------------------------------------------------------------------

    def _compare_records(
        self, asking: Asking, scan: Scan, rows: Iterable[ScannedQueue], newest: Newest
    ) -> None:
        """Note where the newest state record is of a former generation, or the first of a new one.

        Only where the offset vanished, is beyond the end, or the queue was found to be recreated;
        otherwise the record says what its owner did.
        """
        known, self._recorded = self._recorded, {}
        asked = 0
        for row in rows:
            place = row.group, row.queue
            recorded, old = newest(*place), known.get(place)
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
            at, stood = scan.at, self._before(*place)  # a record may be behind the offset
            if found is not None and not found.gone_on_at:
                at, stood = found.at, max(stood, found.position)
            if now.former:
                self._found[place] = Recreation(max(stood, now.low), at, recorded=True)
            elif old is not None and now.generation > old.generation:
                self._found[place] = Recreation(max(stood, old.low), at, moved=True)
        for place, found in self._found.items():
            on_record = self._recorded.get(place)
            if found.recorded and not (on_record and on_record.former):
                self._found[place] = replace(found, recorded=False)

    def _before(self, group: str, queue: MessageQueue) -> int:
        """Where a group stood in a queue that is still suspect, before it became so."""
        suspect = self._suspects.get(queue)
        return NEVER if suspect is None else suspect.positions.get(group, NEVER)

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


def _last_of(reading: TopicReading, queue: MessageQueue) -> LastMessage | None:
    """The last message that a queue had; None: it had none, or when it came is not known."""
    if queue not in reading.queues:
        return None
    place = reading.queues.index(queue)
    end, stored_at = reading.maximum[place], reading.stored_at[place]
    return (end - 1, round(stored_at * 1000)) if end > 0 and stored_at > 0 else None


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


# --- what is on record ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OfRecord:
    """What a state record says of the generation it was written in.

    Attributes:
        stored: its offset in the state queue.
        span: of the source queue when it was compared.
        generation, low, had: as recorded; `had` is a message of the queue.
        former: whether it is of a former generation; None: nobody asked.
    """

    stored: int
    span: tuple[int, int]
    generation: int
    low: int
    had: LastMessage | None
    former: bool | None = None


def _of_record(state: RecordedState, row: ScannedQueue, old: _OfRecord | None) -> _OfRecord:
    """With what was found out before: a proof holds as long as the record is the newest."""
    entry, span = state.entry, (row.minimum, row.maximum)
    former = None
    if old is not None and old.stored == state.offset and (old.former or old.span == span):
        former = old.former
    return _OfRecord(state.offset, span, entry.generation, entry.low, entry.landmark, former)


def _asked(asking: Asking, record: _OfRecord, queue: MessageQueue) -> _OfRecord:
    """Find out whether a record is of a former generation; as it is if that cannot be known now."""
    try:
        former = _is_anew(asking, queue, record.span, record.had)
    except OrderlyError:
        return record
    return replace(record, former=former)


def _is_anew(
    asking: Asking, queue: MessageQueue, span: tuple[int, int], had: LastMessage | None
) -> bool:
    """See `state_reading.is_anew`; most scans suspect nothing."""
    from orderly.monitoring.collecting.state_reading import is_anew  # noqa: PLC0415

    return is_anew(asking, queue, span, had)
