"""Messages of one queue become summaries: in chunks, so that memory has a bound.

A worker holds one chunk of messages and the summaries of the chunks before it. While the keys
are few they are folded together, and a long range gives one summary a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from orderly.model import MessageQueue
from orderly.spark.offsets.losses import Loss
from orderly.spark.summary.combining import combine
from orderly.spark.summary.parts import Numbers, Parts, fold
from orderly.spark.summary.records import coded, integers, record, validity
from orderly.spark.summary.schema import SCHEMA, needed

_CHUNK = 1 << 18  # messages
_HELD = 1 << 18  # summaries, of about 150 bytes each
_BATCH = 1 << 15  # summaries that are given away at once


def summarize(
    queue: MessageQueue,
    batches: Iterable[pa.RecordBatch],
    *,
    seq_property: str = "",
    losses: Iterable[Loss] = (),
    chunk: int = _CHUNK,
    held: int = _HELD,
) -> Iterator[pa.RecordBatch]:
    """Summarise messages of one queue.

    Args:
        queue: all messages are of it.
        batches: messages in the order of their offsets; columns `needed(seq_property)` or more.
        seq_property: "": born times are judged.
        losses: offsets that were gone; looked at after the last batch.
        chunk: messages looked at together.
        held: summaries kept to be folded with later ones.

    Yields:
        Batches of SCHEMA, chunks of a key in the order of their offsets.
    """
    by_seq = bool(seq_property)
    waiting: list[pa.RecordBatch] = []
    for rows in _chunks(batches, needed(seq_property), chunk):
        waiting.append(_summary(queue, rows, by_seq=by_seq))
        if sum(batch.num_rows for batch in waiting) > held:
            waiting = [combine(waiting, by_seq=by_seq)]
            if waiting[0].num_rows > held // 2:  # so many keys that there is little to fold
                yield from _sliced(waiting.pop())
    if waiting:
        yield from _sliced(combine(waiting, by_seq=by_seq))
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


def _summary(queue: MessageQueue, rows: pa.RecordBatch, *, by_seq: bool) -> pa.RecordBatch:
    """One chunk's messages as summaries: each message is a part, and they are folded."""
    codes, keys = coded(rows["sharding_key"])
    return record(queue, keys, fold(codes, _messages(rows, by_seq=by_seq)))


def _messages(rows: pa.RecordBatch, *, by_seq: bool) -> Parts:
    one, none = (np.broadcast_to(np.int64(value), rows.num_rows) for value in (1, 0))
    offset, stored = integers(rows["queue_offset"]), integers(rows["store_ts"])
    number = rows["seq"] if by_seq else rows["born_ts"]
    seq = integers(number) if by_seq else integers(number) // 1000
    uniq = None if by_seq else rows["uniq_key"]
    has_number = validity(number) & validity(rows["sharding_key"])
    return Parts(
        n=one,
        judged=one if has_number.all() else has_number.astype(np.int64),
        first_offset=offset,
        last_offset=offset,
        first_store=stored,
        last_store=stored,
        falls=none,
        repeats=none,
        jumps=none,
        numbers=Numbers(seq, seq, seq, seq, uniq, uniq),
    )


def _lost(queue: MessageQueue, loss: Loss) -> dict[str, object]:
    """A row that says what is missing."""
    counts = dict.fromkeys(("n", "judged", "falls", "repeats", "jumps"), 0)
    place = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
    gone = {"first_offset": loss.start, "last_offset": loss.end - 1, "lost": loss.end - loss.start}
    return {**place, **gone, **counts}


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _BATCH):
        yield batch.slice(start, _BATCH)
