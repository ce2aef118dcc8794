"""What must be known of many messages of a key to judge their order, in one row.

A summary covers one key in one chunk of one queue. It is made where messages are pulled, so that
those of keys in order never reach the JVM; the audit's query adds summaries up. The number judged
is called `seq`: the event's number (option `seqProperty`), or without one the time at which the
message was born, in milliseconds since the epoch. Needs numpy and pyarrow only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orderly.model import MessageQueue
from orderly.spark.offsets import Loss

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_CHUNK = 1 << 18  # messages
_BATCH = 1 << 15  # summaries that are given away at once
_LOW_HALF = np.int64(0xFFFF_FFFF)
_TIME = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("key", pa.string()),  # null: messages without a key, never judged
        pa.field("n", pa.int64(), nullable=False),  # messages
        pa.field("judged", pa.int64(), nullable=False),  # of these, with a number
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("first_store_ts", _TIME),  # of the messages at the two offsets
        pa.field("last_store_ts", _TIME),
        pa.field("first_seq", pa.int64()),  # null: none was judged
        pa.field("last_seq", pa.int64()),
        pa.field("min_seq", pa.int64()),
        pa.field("max_seq", pa.int64()),
        pa.field("falls", pa.int64(), nullable=False),  # neighbours, the later number lower
        pa.field("repeats", pa.int64(), nullable=False),  # neighbours that are the same again
        pa.field("jumps", pa.int64(), nullable=False),  # neighbours with numbers left out between
        pa.field("first_uniq", pa.string()),  # null where numbers show what is the same
        pa.field("last_uniq", pa.string()),
        pa.field("marked", pa.int64(), nullable=False),  # sent again; 0 where numbers show that
        pa.field("lost", pa.int64(), nullable=False),  # offsets gone; then there are no messages
    ]
)


def needed(seq_property: str) -> tuple[str, ...]:
    """The columns of messages that summaries are made of.

    Args:
        seq_property: the property with the event's number; "": born times are judged.
    """
    judged = ("seq",) if seq_property else ("born_ts", "uniq_key", "attempt")
    return ("sharding_key", "queue_offset", "store_ts", *judged)


def summarize(
    queue: MessageQueue,
    batches: Iterable[pa.RecordBatch],
    *,
    seq_property: str = "",
    losses: Iterable[Loss] = (),
    chunk: int = _CHUNK,
) -> Iterator[pa.RecordBatch]:
    """Summarise messages of one queue, chunk by chunk: memory has a bound.

    Args:
        queue: all messages are of it.
        batches: messages in the order of their offsets; columns `needed(seq_property)` or more.
        seq_property: "": born times are judged.
        losses: offsets that were gone; looked at after the last batch.
        chunk: messages looked at together.

    Yields:
        Batches of SCHEMA, chunks of a key in the order of their offsets.
    """
    for rows in _chunks(batches, needed(seq_property), chunk):
        summaries = _summaries(queue, rows, by_seq=bool(seq_property))
        for start in range(0, summaries.num_rows, _BATCH):
            yield summaries.slice(start, _BATCH)
    if gone := [_lost(queue, loss) for loss in losses]:
        yield pa.RecordBatch.from_pylist(gone, schema=SCHEMA)


def _chunks(
    batches: Iterable[pa.RecordBatch], columns: tuple[str, ...], size: int
) -> Iterator[pa.RecordBatch]:
    """Batches put together to at least this many rows, the last one excepted."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch.select(columns))
            rows += batch.num_rows
        if rows >= size:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _lost(queue: MessageQueue, loss: Loss) -> dict[str, object]:
    """A row that says what is missing."""
    counts = dict.fromkeys(("n", "judged", "falls", "repeats", "jumps", "marked"), 0)
    place = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
    gone = {"first_offset": loss.start, "last_offset": loss.end - 1, "lost": loss.end - loss.start}
    return {**place, **gone, **counts}


def _summaries(queue: MessageQueue, rows: pa.RecordBatch, *, by_seq: bool) -> pa.RecordBatch:
    """One chunk's messages as a batch of SCHEMA, a row for each key."""
    encoded = pc.dictionary_encode(rows["sharding_key"], null_encoding="encode")
    groups = KeyGroups.by(_integers(encoded.indices))
    size = len(encoded.dictionary)
    offset, stored = rows["queue_offset"], rows["store_ts"]
    columns = {
        "topic": pa.repeat(queue.topic, size),
        "broker": pa.repeat(queue.broker_name, size),
        "queue_id": pa.repeat(pa.scalar(queue.queue_id, pa.int32()), size),
        "key": encoded.dictionary,
        "n": pa.array(groups.sizes),
        "first_offset": offset.take(pa.array(groups.firsts)),
        "last_offset": offset.take(pa.array(groups.lasts)),
        "first_store_ts": stored.take(pa.array(groups.firsts)),
        "last_store_ts": stored.take(pa.array(groups.lasts)),
        "lost": pa.repeat(pa.scalar(0, pa.int64()), size),
        **_judged(groups, rows, by_seq=by_seq),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _judged(groups: KeyGroups, rows: pa.RecordBatch, *, by_seq: bool) -> dict[str, pa.Array]:
    """The columns of what has a number; keys of which none has are without."""
    number = rows["seq"] if by_seq else rows["born_ts"]
    has_number = pc.and_(number.is_valid(), rows["sharding_key"].is_valid())
    marked = np.zeros(rows.num_rows, np.bool_) if by_seq else _valid(rows["attempt"])
    seq = _integers(number) if by_seq else _integers(number) // 1000
    uniq = pa.nulls(rows.num_rows, pa.string()) if by_seq else rows["uniq_key"]
    numbered, seen = groups.only(_truths(has_number))

    # Where a group's numbers go among all groups; null: nothing was judged.
    places = np.full(len(groups.starts), -1, np.int64)
    places[seen] = np.arange(len(seen))
    at = pa.array(places, mask=places < 0)
    falls, repeats, jumps = _between(numbered, seq, None if by_seq else uniq)
    counts = {
        "judged": numbered.sizes,
        "falls": numbered.count(falls),
        "repeats": numbered.count(repeats),
        "jumps": numbered.count(jumps),
        "marked": numbered.sums(marked),
    }
    numbers = {
        "first_seq": seq[numbered.firsts],
        "last_seq": seq[numbered.lasts],
        "min_seq": numbered.least(seq),
        "max_seq": numbered.greatest(seq),
    }
    return {
        **{name: pa.array(values).take(at).fill_null(0) for name, values in counts.items()},
        **{name: pa.array(values).take(at) for name, values in numbers.items()},
        "first_uniq": uniq.take(pa.array(numbered.firsts)).take(at),
        "last_uniq": uniq.take(pa.array(numbered.lasts)).take(at),
    }


def _between(
    groups: KeyGroups, seq: Ints, uniq: pa.StringArray | None
) -> tuple[Bools, Bools, Bools]:
    """Where neighbours of a group fall, repeat, jump; for each place but the first.

    Args:
        groups: of rows with numbers.
        seq: the numbers of all rows.
        uniq: ids of all rows; None: an equal number means the same message, with any id.
    """
    inner = groups.inner()
    earlier, later = groups.order[:-1], groups.order[1:]
    before, after = seq[earlier], seq[later]
    falls = inner & (after < before)
    if uniq is not None:
        same = pc.equal(uniq.take(pa.array(earlier)), uniq.take(pa.array(later)))
        repeats = inner & _truths(same.fill_null(False))
        return falls, repeats, np.zeros_like(inner)
    # `after - 1` cannot run over where after > before.
    jumps = inner & (after > before) & (after - 1 > before)
    return falls, inner & (after == before), jumps


def _integers(column: pa.Array) -> Ints:
    """A column's numbers, or times in microseconds; 0 for a missing one."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    numbers: Ints = column.fill_null(0).to_numpy().astype(np.int64, copy=False)
    return numbers


def _truths(column: pa.BooleanArray) -> Bools:
    found: Bools = column.to_numpy(zero_copy_only=False)
    return found


def _valid(column: pa.Array) -> Bools:
    return _truths(column.is_valid())


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows put together by a code: the order that sorts them, and where each code begins."""

    order: Ints
    starts: Ints

    @classmethod
    def by(cls, codes: Ints) -> KeyGroups:
        """Group rows; those of a code stay in their order.

        Args:
            codes: 0 to 2^31 - 1, at most 2^32 rows.
        """
        # Sorting (code, row) as one number takes a fifth of the time of a stable argsort.
        packed = (codes << 32) | np.arange(len(codes), dtype=np.int64)
        packed.sort()
        return cls(packed & _LOW_HALF, np.flatnonzero(np.diff(packed >> 32, prepend=-1)))

    def only(self, rows: Bools) -> tuple[KeyGroups, Ints]:
        """The same groups with some rows, and which of them have any; the others are left out."""
        kept = rows[self.order]
        group = (np.cumsum(self._begins()) - 1)[kept]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        return KeyGroups(self.order[kept], starts), group[starts]

    @property
    def firsts(self) -> Ints:
        """The first row of each group."""
        return self.order[self.starts]

    @property
    def lasts(self) -> Ints:
        """The last row of each group."""
        return self.order[self._ends - 1]

    @property
    def sizes(self) -> Ints:
        """How many rows each group has."""
        return self._ends - self.starts

    @property
    def _ends(self) -> Ints:
        return np.append(self.starts, len(self.order))[1:]

    def inner(self) -> Bools:
        """For each place but the first: whether it belongs to the group of the one before."""
        return ~self._begins()[1:]

    def _begins(self) -> Bools:
        begins = np.zeros(len(self.order), np.bool_)
        begins[self.starts] = True
        return begins

    def count(self, places: Bools) -> Ints:
        """In each group, how many places but the first are marked."""
        marked = np.flatnonzero(places) + 1
        group = np.searchsorted(self.starts, marked, side="right") - 1
        return np.bincount(group, minlength=len(self.starts)).astype(np.int64)

    def sums(self, marked: Bools) -> Ints:
        """How many rows of each group are marked."""
        counts = marked[self.order].astype(np.int64)
        return np.add.reduceat(counts, self.starts) if len(self.starts) else counts[:0]

    def least(self, values: Ints) -> Ints:
        """The lowest of each group."""
        return np.minimum.reduceat(values[self.order], self.starts)

    def greatest(self, values: Ints) -> Ints:
        """The highest of each group."""
        return np.maximum.reduceat(values[self.order], self.starts)
