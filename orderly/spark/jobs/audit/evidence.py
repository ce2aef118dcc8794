"""What exactly is wrong with suspects: the pairs of messages that show it. Pure.

- repeat: a number (without numbers: an id) that the key had before. The copy stored first counts,
  the others are repeats. Among them are repeated sends, which consumers leave out
  (`ordering.repeats`).
- inversion: without repeats, a message after one with a higher number, in one queue.
- across: the same between two queues, by the times at which the broker stored them.
- gap: numbers between two that are there, and found nowhere. Filled late is no gap: the late
  message is an inversion.

Spark brings all of a key's messages together; `look_at_messages` bounds what that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orderly.spark.columns import COLUMNS
from orderly.spark.jobs.audit.merging import add_up
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

KINDS = {"inversion": "inversions", "across": "across", "repeat": "repeats", "gap": "gaps"}
"""The kinds of evidence, and the names of their counts."""

_NAMES = (
    "broker", "queue_id", "queue_offset", "seq", "msg_id", "uniq_key", "born_ts", "store_ts",
)  # fmt: skip
_MESSAGE = pa.struct([(name, COLUMNS[name].arrow) for name in _NAMES])
EVIDENCE = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("key", pa.string()),
        ("message", _MESSAGE),
        ("before", _MESSAGE),  # of a repeat the original
        ("distance", pa.int64()),  # inversions: by how much it fell; gap: how many are missing
        ("same_id", pa.bool_()),  # repeats: equal ids
        ("repeated_send", pa.bool_()),  # repeats: consumers leave it out
        ("adjacent", pa.bool_()),  # repeats: nothing of the key in between
    ]
)
_MOST = 2**63 - 1
PICTURES, DOTS = 4, 60  # keys that are drawn, and messages of each


def message_columns(*, by_seq: bool) -> tuple[str, ...]:
    """The columns of messages that are needed."""
    names = [name for name in _NAMES if by_seq or name != "seq"]
    return ("topic", "sharding_key", *names, "commitlog_offset", "attempt", "body_sum")


@dataclass(frozen=True, slots=True)
class AuditEvidence:
    """What is wrong with some suspects.

    Attributes:
        lines: one for each thing that is wrong, see EVIDENCE.
        keys: a row for each key: topic, key, seen (messages judged), a count for each kind, resent
            (repeats with equal ids), repeated_sends (of these), missing (numbers left out).
        queues: topic, broker, queue_id, and a count for each kind.
        times: start (milliseconds since the epoch), kind, count: by when it was stored.
        pictures: of the worst keys the messages stored nearest to the first thing that is wrong:
            topic, key, broker, queue_id, queue_offset, seq, store_ts, wrong.
    """

    lines: pa.Table
    keys: pa.Table
    queues: pa.Table
    times: pa.Table
    pictures: pa.Table


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of time in which evidence is counted: `length` each, in milliseconds."""

    start: int
    length: int


def look_at(
    messages: pa.Table, suspects: pa.Table, spans: Spans, *, by_seq: bool, gaps: bool
) -> AuditEvidence:
    """Find what is wrong with suspects.

    Args:
        messages: columns `message_columns(by_seq=…)`, the sharding key as `key`; all of each
            suspect, and maybe of others.
        suspects: topic, key.
        spans: to count by.
        by_seq: whether numbers are judged; else times of birth.
        gaps: whether to look for numbers that are left out.
    """
    judged = _judged(messages, suspects, by_seq=by_seq)
    found = _Found(judged)
    parts = [found.repeats(), found.inversions(), found.across()]
    pairs = _Pairs.joined([*parts, found.gaps()] if gaps else parts)
    lines = _lines(judged, pairs)
    return AuditEvidence(
        lines,
        _by_key(judged, pairs, lines),
        _by_queue(lines),
        _by_time(lines, spans),
        _pictures(judged, pairs),
    )


# --- messages in the order of storing -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judged:
    """The judged messages of suspects, key by key, each key's in the order of storing.

    Attributes:
        table: the columns of a message, with topic and key.
        key: a number for each key.
        seq: what is judged.
        same: equal for messages that are the same.
        broker, queue_id, offset, stored: of each.
    """

    table: pa.Table
    key: Ints
    seq: Ints
    same: Ints
    broker: Ints
    queue_id: Ints
    offset: Ints
    stored: Ints

    @property
    def queue(self) -> Ints:
        return grouped([self.broker, self.queue_id])


def _judged(messages: pa.Table, suspects: pa.Table, *, by_seq: bool) -> _Judged:
    table = messages
    if not by_seq:
        millis = numbers(table["born_ts"]) // 1000
        table = table.append_column("seq", pa.array(millis))
    both = [
        codes(pa.chunked_array([*table[name].chunks, *suspects[name].chunks], pa.string()))
        for name in ("topic", "key")
    ]
    key = grouped(both)
    ours = np.isin(key[: table.num_rows], key[table.num_rows :]) & valid(table["seq"])
    table, key = table.filter(pa.array(ours)), key[: table.num_rows][ours]
    broker, stored = ranks(table["broker"]), numbers(table["store_ts"])
    order = np.lexsort((numbers(table["commitlog_offset"]), broker, stored, key))
    table = table.take(pa.array(order)).combine_chunks()
    ids = pc.coalesce(table["uniq_key"], table["msg_id"])
    seq = numbers(table["seq"])
    return _Judged(
        table,
        key[order],
        seq,
        seq if by_seq else codes(ids),
        broker[order],
        numbers(table["queue_id"]),
        numbers(table["queue_offset"]),
        stored[order],
    )


# --- pairs: a message, and the one that shows what is wrong with it -------------------------------


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Attributes: kind, message, before (rows), distance; of repeats the others, too."""

    kind: pa.Array
    message: Ints
    before: Ints
    distance: pa.Array
    same_id: pa.Array
    repeated_send: pa.Array
    adjacent: pa.Array

    @classmethod
    def of(cls, kind: str, rows: Ints, before: Ints, distance: Ints) -> _Pairs:
        """Pairs that are no repeats."""
        nothing = pa.nulls(len(rows), pa.bool_())
        kinds = pa.repeat(kind, len(rows))
        return cls(kinds, rows, before[rows], pa.array(distance), nothing, nothing, nothing)

    @classmethod
    def joined(cls, parts: list[_Pairs]) -> _Pairs:
        """All of them."""
        message, before = (
            np.concatenate([getattr(each, name) for each in parts])
            for name in ("message", "before")
        )
        kind, distance, *of_repeats = (
            pa.concat_arrays([getattr(each, name) for each in parts])
            for name in ("kind", "distance", "same_id", "repeated_send", "adjacent")
        )
        return cls(kind, message, before, distance, *of_repeats)


class _Found:
    """Compares messages, each with the one that it must be compared with."""

    def __init__(self, judged: _Judged) -> None:
        self._judged = judged
        stored = np.arange(len(judged.key))
        order, copies = self._in_order(judged.same, judged.key)
        self._original = np.empty_like(stored)  # of each message the first of the same
        self._original[order] = order[copies.starts[copies.of_row]]
        self._once: Bools = self._original == stored

    def _in_order(self, by: Ints, *within: Ints) -> tuple[Ints, Segments]:
        """An order of the messages, equal ones as stored, and the segments of `within` in it."""
        order = np.lexsort((by, *within))
        parts = [part[order] for part in (*within, by)]
        return order, Segments(*parts)

    def _once_before(self, *last_to_first: Ints, segments: tuple[Ints, ...]) -> Ints:
        """For each message the last original before it, in an order within segments."""
        order = np.lexsort((*last_to_first, *reversed(segments)))
        places = Segments(*(part[order] for part in segments)).before(self._once[order])
        found = np.empty_like(order)
        found[order] = np.where(places >= 0, order[places], NONE)
        return found

    def repeats(self) -> _Pairs:
        judged = self._judged
        rows = np.flatnonzero(~self._once)
        uniq = judged.table["uniq_key"].combine_chunks()
        originals = self._original[rows]
        same = pc.equal(uniq.take(pa.array(rows)), uniq.take(pa.array(originals)))
        order = np.lexsort((judged.offset, judged.queue, judged.key))
        key, queue, kind = judged.key[order], judged.queue[order], judged.same[order]
        follows = np.zeros(len(order), np.bool_)
        follows[1:] = (key[1:] == key[:-1]) & (queue[1:] == queue[:-1]) & (kind[1:] == kind[:-1])
        adjacent = np.empty_like(follows)
        adjacent[order] = follows
        return _Pairs(
            pa.repeat("repeat", len(rows)),
            rows,
            originals,
            pa.nulls(len(rows), pa.int64()),
            same.fill_null(False),
            pa.array(self._repeated_sends()[rows]),
            pa.array(adjacent[rows]),
        )

    def _repeated_sends(self) -> Bools:
        """Before which a copy stands in the same queue, one of the two marked."""
        judged, table = self._judged, self._judged.table
        marked = valid(table["attempt"])
        if not marked.any():
            return marked
        ids, born, body = (
            codes(table["uniq_key"]), numbers(table["born_ts"]), numbers(table["body_sum"]),
        )  # fmt: skip
        same = (judged.key, judged.queue, ids, born, body)
        order = np.lexsort((judged.offset, *same))
        copies = Segments(*(part[order] for part in same))
        behind = copies.before(np.ones(len(order), np.bool_)) != NONE
        found: Bools = np.empty_like(marked)
        found[order] = behind & (marked[order] | (copies.before(marked[order]) != NONE))
        found &= ids != NONE
        return found

    def inversions(self) -> _Pairs:
        judged = self._judged
        before = self._once_before(judged.offset, segments=(judged.key, judged.queue))
        return self._falls("inversion", before, np.ones(len(before), np.bool_))

    def across(self) -> _Pairs:
        judged = self._judged
        stored = np.arange(len(judged.key))
        before = self._once_before(stored, segments=(judged.key,))
        # Equal times say nothing between two brokers; in one broker's log the place does.
        later = (judged.broker == judged.broker[before]) | (judged.stored > judged.stored[before])
        return self._falls("across", before, later & (judged.queue != judged.queue[before]))

    def _falls(self, kind: str, before: Ints, where: Bools) -> _Pairs:
        seq = self._judged.seq
        fell = where & self._once & (before != NONE) & (seq < seq[before])
        rows = np.flatnonzero(fell)
        return _Pairs.of(kind, rows, before, _difference(seq[before[rows]], seq[rows]))

    def gaps(self) -> _Pairs:
        judged = self._judged
        seq, stored = judged.seq, np.arange(len(judged.key))
        before = self._once_before(stored, seq, segments=(judged.key,))
        rises = self._once & (before != NONE) & (seq > seq[before])
        rows = np.flatnonzero(rises & (seq - 1 > seq[before]))  # can't run over where it rises
        return _Pairs.of("gap", rows, before, _difference(seq[rows] - 1, seq[before[rows]]))


def _difference(higher: Ints, lower: Ints) -> Ints:
    """The difference; the greatest number that there is where it does not fit."""
    wide = higher.view(np.uint64) - lower.view(np.uint64)
    found: Ints = np.minimum(wide, np.uint64(_MOST)).astype(np.int64)
    return found


# --- what is reported of them ---------------------------------------------------------------------


def _lines(judged: _Judged, pairs: _Pairs) -> pa.Table:
    def messages(rows: Ints) -> pa.Array:
        chosen = judged.table.select(_NAMES).take(pa.array(rows)).combine_chunks()
        columns = [
            chosen[name].combine_chunks().cast(COLUMNS[name].arrow, safe=False) for name in _NAMES
        ]
        return pa.StructArray.from_arrays(columns, fields=list(_MESSAGE))

    at = pa.array(pairs.message)
    columns = {
        "kind": pairs.kind,
        "topic": judged.table["topic"].take(at),
        "key": judged.table["key"].take(at),
        "message": messages(pairs.message),
        "before": messages(pairs.before),
        "distance": pairs.distance,
        "same_id": pairs.same_id,
        "repeated_send": pairs.repeated_send,
        "adjacent": pairs.adjacent,
    }
    return pa.table(columns, schema=EVIDENCE)


def _kinds(lines: pa.Table) -> Iterator[tuple[str, Ints]]:
    """For each kind's count, whether a line adds to it."""
    for kind, name in KINDS.items():
        yield name, pc.equal(lines["kind"], kind).to_numpy().astype(np.int64)


def _by_key(judged: _Judged, pairs: _Pairs, lines: pa.Table) -> pa.Table:
    segments = Segments(judged.key)
    of_line = segments.of_row[pairs.message]

    def counted(marks: Ints) -> Ints:
        return np.bincount(of_line, weights=marks, minlength=len(segments)).astype(np.int64)

    resent, repeated_sends = (
        lines[name].fill_null(False).to_numpy().astype(np.int64)
        for name in ("same_id", "repeated_send")
    )
    texts = pa.array(segments.starts)
    return pa.table(
        {
            "topic": judged.table["topic"].take(texts),
            "key": judged.table["key"].take(texts),
            "seen": segments.sums(np.ones(len(judged.key), np.bool_)),
            **{name: counted(marks) for name, marks in _kinds(lines)},
            "resent": counted(resent),
            "repeated_sends": counted(repeated_sends),
            "missing": _missing(pairs, of_line, len(segments)),
        }
    )


def _missing(pairs: _Pairs, of_line: Ints, keys: int) -> Ints:
    """Numbers left out by each key, at most the greatest number that there is."""
    gap = pc.equal(pairs.kind, "gap").to_numpy(zero_copy_only=False)
    sums = [0] * keys
    distances = pairs.distance.filter(pa.array(gap)).to_pylist()
    for key, distance in zip(of_line[gap].tolist(), distances, strict=True):
        sums[key] += distance
    return np.array([min(each, _MOST) for each in sums], np.int64)


def _by_queue(lines: pa.Table) -> pa.Table:
    messages = lines["message"].combine_chunks()
    table = pa.table(
        {
            "topic": lines["topic"],
            "broker": messages.field("broker"),
            "queue_id": messages.field("queue_id"),
            **dict(_kinds(lines)),
        }
    )
    return add_up(table)


def _by_time(lines: pa.Table, spans: Spans) -> pa.Table:
    stored = numbers(pa.chunked_array([lines["message"].combine_chunks().field("store_ts")]))
    place = (stored // 1000 - spans.start) // spans.length
    table = pa.table(
        {
            "start": spans.start + place * spans.length,
            "kind": lines["kind"],
            "count": np.ones(len(place), np.int64),
        }
    )
    return add_up(table, ("start", "kind"))


def _pictures(judged: _Judged, pairs: _Pairs) -> pa.Table:
    segments = Segments(judged.key)
    wrong = np.zeros(len(judged.key), np.bool_)
    wrong[pairs.message] = True
    counts = np.bincount(segments.of_row[pairs.message], minlength=len(segments))
    names = ["topic", "key", "broker", "queue_id", "queue_offset", "seq", "store_ts"]
    chosen = np.argsort(-counts, kind="stable")[:PICTURES]
    rows = [
        _near(judged, np.flatnonzero(segments.of_row == key), wrong)
        for key in chosen.tolist()
        if counts[key]
    ]
    near = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    table = judged.table.select(names).take(pa.array(near))
    return table.append_column("wrong", pa.array(wrong[near]))


def _near(judged: _Judged, rows: Ints, wrong: Bools) -> Ints:
    """Of a key's messages those stored nearest to the first thing that is wrong."""
    first = judged.stored[rows[wrong[rows]]].min()
    away = np.abs(judged.stored[rows] - first)
    return rows[np.lexsort((judged.offset[rows], away))[:DOTS]]


def worst_pictures(
    tables: Iterable[pa.Table], worst: Iterable[Mapping[str, Any]]
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Of the pictures of several parts those of the worst keys, in their order."""
    rows = [row for table in tables for row in table.to_pylist()]
    rows.sort(key=lambda row: (row["topic"], row["key"]))
    drawn = {
        place: list(mine) for place, mine in groupby(rows, lambda row: (row["topic"], row["key"]))
    }
    places = [(row["topic"], row["key"]) for row in worst if row["exact"]]
    return [(place[1], drawn[place]) for place in places if place in drawn][:PICTURES]
