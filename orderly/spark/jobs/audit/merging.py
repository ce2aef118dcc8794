"""From summaries of chunks to a row for each key: is it in order, or must its messages be seen?

Only summaries are sorted here, never messages: a key with half of all messages has a row for each
chunk, and costs no more than any other. Pure: Spark brings the summaries of a key together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import pyarrow as pa

from orderly.spark.jobs.audit.segments import (
    NONE,
    Bools,
    Ints,
    Segments,
    codes,
    grouped,
    numbers,
    ranks,
    valid,
)

_TIME = pa.timestamp("us", tz="UTC")
KEYS = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.string()),
        ("messages", pa.int64()),
        ("judged", pa.int64()),  # of these, with a number
        ("queues", pa.int64()),
        ("mixed", pa.bool_()),  # it was in one queue, then in another, then in the first again
        ("first_store_ts", _TIME),
        ("last_store_ts", _TIME),
        ("min_seq", pa.int64()),
        ("max_seq", pa.int64()),
        ("falls", pa.int64()),  # neighbours in a queue, the later number lower
        ("falls_between", pa.int64()),  # from one queue to the next
        ("same", pa.int64()),  # neighbours that are the same
        ("jumps", pa.int64()),  # neighbours with numbers left out between
        ("suspect", pa.bool_()),  # whether its messages must be looked at
    ]
)
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class MergedKeys:
    """What some summaries come to.

    Attributes:
        keys: a row for each key, see KEYS.
        queues: for each queue: topic, broker, queue_id, messages, keyless, unnumbered, keys.
        losses: for each queue of which offsets were gone: topic, broker, queue_id, first_offset,
            last_offset, lost.
        ranges: for each queue with messages of suspects: topic, broker, queue_id, start, end.
    """

    keys: pa.Table
    queues: pa.Table
    losses: pa.Table
    ranges: pa.Table


def merge(summaries: pa.Table, *, by_seq: bool, gaps: bool, look_at_messages: int) -> MergedKeys:
    """Judge each key by its summaries.

    A key whose numbers rise one by one in each of its queues, and from queue to queue in the order
    of storing, is in order: that is certain without looking at its messages.

    Args:
        summaries: columns of `orderly.spark.summary.SCHEMA`; all of each key, and no two of a key
            and queue overlap.
        by_seq: whether numbers were judged, so that equal ones are the same message.
        gaps: whether numbers that are left out count.
        look_at_messages: suspects with more messages are left out of `ranges`.
    """
    lost = numbers(summaries["lost"]) > 0
    keyed = valid(summaries["key"]) & ~lost
    parts = _parts(summaries.filter(pa.array(keyed)), by_seq=by_seq)
    keys = _keys(parts, by_seq=by_seq, gaps=gaps)
    suspect = keys.table["suspect"].to_numpy() & (keys.messages <= look_at_messages)
    return MergedKeys(
        keys.table,
        _queues(summaries, parts, keyed, lost),
        _losses(summaries.filter(pa.array(lost))),
        _ranges(parts, suspect[keys.of_part]),
    )


# --- stretches: of a key in one queue, one after the other ----------------------------------------


@dataclass(slots=True)
class _Stretches:
    """Columns of summaries, as arrays: numbers count only where something is `judged`."""

    key: Ints
    broker: Ints
    queue_id: Ints
    row: Ints  # of the table, which has the texts
    n: Ints
    judged: Ints
    first_offset: Ints
    last_offset: Ints
    first_ts: Ints
    last_ts: Ints
    first_seq: Ints
    last_seq: Ints
    min_seq: Ints
    max_seq: Ints
    falls: Ints
    repeats: Ints
    jumps: Ints
    marked: Ints
    first_uniq: Ints
    last_uniq: Ints

    def sorted_by(self, *last_to_first: Ints) -> Self:
        order = np.lexsort(last_to_first)
        return type(self)(*(getattr(self, field.name)[order] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class _Parts:
    """A row for each key and queue, and the summaries that have the texts of each."""

    rows: _Stretches
    source: pa.Table


def _parts(keyed: pa.Table, *, by_seq: bool) -> _Parts:
    names = (
        "n", "judged", "first_offset", "last_offset", "first_store_ts", "last_store_ts",
        "first_seq", "last_seq", "min_seq", "max_seq", "falls", "repeats", "jumps", "marked",
    )  # fmt: skip
    topic, broker = codes(keyed["topic"]), ranks(keyed["broker"])
    key, queue_id = grouped([topic, codes(keyed["key"])]), numbers(keyed["queue_id"])
    both = pa.chunked_array([*keyed["first_uniq"].chunks, *keyed["last_uniq"].chunks], pa.string())
    uniq = np.split(codes(both), [keyed.num_rows])
    row = np.arange(keyed.num_rows)
    columns = [numbers(keyed[name]) for name in names]
    rows = _Stretches(key, broker, queue_id, row, *columns, *uniq)
    rows = rows.sorted_by(rows.first_offset, queue_id, broker, key)
    segments = Segments(rows.key, rows.broker, rows.queue_id)
    between = _between(rows, segments, by_seq=by_seq)
    first, end = segments.starts, np.append(segments.starts, len(row))[1:] - 1
    judged = rows.judged > 0
    opens, closes = segments.first(judged), segments.last(judged)
    merged = _Stretches(
        key=rows.key[first],
        broker=rows.broker[first],
        queue_id=rows.queue_id[first],
        row=rows.row[first],
        n=segments.sums(rows.n),
        judged=segments.sums(rows.judged),
        first_offset=rows.first_offset[first],
        last_offset=rows.last_offset[end],
        first_ts=rows.first_ts[first],
        last_ts=rows.last_ts[end],
        first_seq=rows.first_seq[opens],  # any value for one without rows: it is not used
        last_seq=rows.last_seq[closes],
        min_seq=segments.least(np.where(judged, rows.min_seq, _HIGHEST)),
        max_seq=segments.greatest(np.where(judged, rows.max_seq, _LOWEST)),
        falls=segments.sums(rows.falls) + segments.sums(between.falls),
        repeats=segments.sums(rows.repeats) + segments.sums(between.same),
        jumps=segments.sums(rows.jumps) + segments.sums(between.jumps),
        marked=segments.sums(rows.marked),
        first_uniq=rows.first_uniq[opens],
        last_uniq=rows.last_uniq[closes],
    )
    return _Parts(merged, keyed)


@dataclass(frozen=True, slots=True)
class _Between:
    """What is wrong between a stretch and the one before it."""

    falls: Bools
    same: Bools
    jumps: Bools


def _between(rows: _Stretches, segments: Segments, *, by_seq: bool) -> _Between:
    judged = rows.judged > 0
    earlier = segments.before(judged)
    both = judged & (earlier != NONE)
    now, before = rows.first_seq, rows.last_seq[earlier]
    falls = both & (now < before)
    if not by_seq:
        same = both & (rows.first_uniq != NONE) & (rows.first_uniq == rows.last_uniq[earlier])
        return _Between(falls, same, np.zeros_like(both))
    # `now - 1` cannot run over where now > before.
    jumps = both & (now > before) & (now - 1 > before)
    return _Between(falls, both & (now == before), jumps)


# --- a row for each key ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Keys:
    """The table; `messages` of each key; and the key of each part, in the parts' order."""

    table: pa.Table
    messages: Ints
    of_part: Ints


def _keys(parts: _Parts, *, by_seq: bool, gaps: bool) -> _Keys:
    found = parts.rows
    rows = found.sorted_by(
        found.queue_id, found.broker, found.last_ts, found.first_ts, found.key
    )  # fmt: skip
    segments = Segments(rows.key)
    between = _between(rows, segments, by_seq=by_seq)
    left_at = segments.highest_before(rows.last_ts)
    falls, falls_between = segments.sums(rows.falls), segments.sums(between.falls)
    same = segments.sums(rows.repeats) + segments.sums(between.same)
    jumps = segments.sums(rows.jumps) + segments.sums(between.jumps)
    mixed = segments.any(rows.first_ts < left_at)
    tied = segments.any(rows.first_ts == left_at)  # the summaries can't say which came first
    counted = falls + falls_between + same + (jumps if gaps else 0)
    marked = segments.any(rows.marked > 0)  # a copy may be born with what stands between
    judged = segments.sums(rows.judged)
    messages = segments.sums(rows.n)
    texts = pa.array(rows.row[segments.starts])
    columns = {
        "topic": parts.source["topic"].take(texts),
        "key": parts.source["key"].take(texts),
        "messages": messages,
        "judged": judged,
        "queues": segments.sums(np.ones(len(rows.key), np.bool_)),
        "mixed": mixed,
        "first_store_ts": pa.array(segments.least(rows.first_ts)).cast(_TIME),
        "last_store_ts": pa.array(segments.greatest(rows.last_ts)).cast(_TIME),
        "min_seq": pa.array(segments.least(rows.min_seq), mask=judged == 0),
        "max_seq": pa.array(segments.greatest(rows.max_seq), mask=judged == 0),
        "falls": falls,
        "falls_between": falls_between,
        "same": same,
        "jumps": jumps,
        "suspect": mixed | tied | marked | (counted > 0),
    }
    order = np.unique(found.key, return_inverse=True)[1].astype(np.int64)
    return _Keys(pa.table(columns, schema=KEYS), messages, order)


# --- queues ---------------------------------------------------------------------------------------


_QUEUE = ("topic", "broker", "queue_id")


def _queues(summaries: pa.Table, parts: _Parts, keyed: Bools, lost: Bools) -> pa.Table:
    n, judged = numbers(summaries["n"]), numbers(summaries["judged"])
    counted = summaries.select(_QUEUE).append_column("messages", pa.array(n))
    counted = counted.append_column("keyless", pa.array(np.where(keyed, 0, n)))
    counted = counted.append_column("unnumbered", pa.array(np.where(keyed, n - judged, 0)))
    counted = counted.append_column("keys", pa.array(np.zeros_like(n)))
    of_keys = parts.source.select(_QUEUE).take(pa.array(parts.rows.row))
    for name, value in {"messages": 0, "keyless": 0, "unnumbered": 0, "keys": 1}.items():
        of_keys = of_keys.append_column(name, pa.array(np.full(of_keys.num_rows, value)))
    return add_up(pa.concat_tables([counted.filter(pa.array(~lost)), of_keys]))


def add_up(table: pa.Table, by: tuple[str, ...] = _QUEUE) -> pa.Table:
    """A row for each queue, the other columns summed; sorted."""
    names = [name for name in table.column_names if name not in by]
    found = table.group_by(list(by)).aggregate([(name, "sum") for name in names])
    found = found.select([*by, *(f"{name}_sum" for name in names)]).rename_columns([*by, *names])
    return found.sort_by([(name, "ascending") for name in by])


def _losses(lost: pa.Table) -> pa.Table:
    return _spans(lost.select([*_QUEUE, "first_offset", "last_offset", "lost"]))


def _ranges(parts: _Parts, suspect: Bools) -> pa.Table:
    rows = np.flatnonzero(suspect)
    places = parts.source.select(_QUEUE).take(pa.array(parts.rows.row[rows]))
    places = places.append_column("first_offset", pa.array(parts.rows.first_offset[rows]))
    return _spans(places.append_column("last_offset", pa.array(parts.rows.last_offset[rows])))


def _spans(places: pa.Table) -> pa.Table:
    """A row for each queue: the first offset, the last one, and the sum of what else there is."""
    how = {"first_offset": "min", "last_offset": "max", "lost": "sum"}
    wanted = [(name, how[name]) for name in places.column_names if name in how]
    found = places.group_by(list(_QUEUE)).aggregate(wanted)
    found = found.select([*_QUEUE, *(f"{name}_{way}" for name, way in wanted)])
    found = found.rename_columns([*_QUEUE, *(name for name, _ in wanted)])
    return found.sort_by([(name, "ascending") for name in _QUEUE])


def spans_of(tables: list[pa.Table]) -> pa.Table:
    """Losses or ranges of several parts, a row for each queue."""
    return _spans(pa.concat_tables(tables))


def worst(keys: pa.Table, most: int, messages: int) -> pa.Table:
    """The suspects to look at, those with the most falls first.

    Args:
        keys: suspects, columns of KEYS.
        most: how many.
        messages: keys with more are left out.
    """
    fit = keys.filter(pa.array(numbers(keys["messages"]) <= messages))
    falls = numbers(fit["falls"]) + numbers(fit["falls_between"])
    others = numbers(fit["same"]) + numbers(fit["jumps"])
    order = np.lexsort(
        (ranks(fit["key"]), ranks(fit["topic"]), -numbers(fit["messages"]), -others, -falls)
    )
    return fit.take(pa.array(order[:most]))
