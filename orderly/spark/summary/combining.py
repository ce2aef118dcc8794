"""Several summaries of a queue become one for each key: the sum that needs no messages."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from orderly.model import MessageQueue
from orderly.spark.summary.parts import Numbers, Parts, fold
from orderly.spark.summary.records import coded, integers, record


def combine(summaries: Sequence[pa.RecordBatch], *, by_seq: bool) -> pa.RecordBatch:
    """Fold summaries into one for each key.

    Args:
        summaries: of one queue and of at least one key, without losses; those of a key in the
            order of their offsets.
        by_seq: whether numbers were judged, so that equal ones are the same message.

    Returns:
        A batch of SCHEMA.
    """
    rows = pa.concat_batches(summaries)
    codes, keys = coded(rows["key"])
    return record(_queue(rows), keys, fold(codes, _parts(rows, by_seq=by_seq)))


def _queue(rows: pa.RecordBatch) -> MessageQueue:
    topic, broker, queue_id = (rows[name][0].as_py() for name in ("topic", "broker", "queue_id"))
    return MessageQueue(topic, broker, queue_id)


def _parts(rows: pa.RecordBatch, *, by_seq: bool) -> Parts:
    return Parts(
        n=integers(rows["n"]),
        judged=integers(rows["judged"]),
        first_offset=integers(rows["first_offset"]),
        last_offset=integers(rows["last_offset"]),
        first_store=integers(rows["first_store_ts"]),
        last_store=integers(rows["last_store_ts"]),
        falls=integers(rows["falls"]),
        repeats=integers(rows["repeats"]),
        jumps=integers(rows["jumps"]),
        numbers=Numbers(
            first=integers(rows["first_seq"]),
            last=integers(rows["last_seq"]),
            least=integers(rows["min_seq"]),
            greatest=integers(rows["max_seq"]),
            first_uniq=None if by_seq else rows["first_uniq"],
            last_uniq=None if by_seq else rows["last_uniq"],
        ),
    )
