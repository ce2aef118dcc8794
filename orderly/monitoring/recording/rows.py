"""A snapshot as rows of a table: one for each queue of each group. Pure.

What is not known is null, and never 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus, Snapshot

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),  # when the scan began
        pa.field("interval", pa.float64(), nullable=False),  # seconds planned to the next scan
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("state", pa.string(), nullable=False),  # a QueueState
        pa.field("min_offset", pa.int64()),
        pa.field("committed", pa.int64()),
        pa.field("max_offset", pa.int64()),
        pa.field("backlog", pa.int64()),  # messages not finished
        pa.field("head_age", pa.float64()),  # seconds since the first of them was stored
        pa.field("in_rate", pa.float64()),  # messages a second, over the monitor's window
        pa.field("out_rate", pa.float64()),
        pa.field("owner", pa.string()),  # client id of the member that has the queue
        pa.field("parked", pa.int64()),  # keys that wait in the park topic
        pa.field("dead", pa.int64()),  # dead letters of the whole group, the same in all its rows
    ],
    metadata={"orderly.schema": "orderly.backlog-history/v1"},
)


def batch_of(snapshot: Snapshot, interval: float) -> pa.RecordBatch:
    """The rows of a snapshot.

    Args:
        snapshot: what was measured.
        interval: seconds planned from one snapshot to the next: by it readers know gaps. A scan
            that takes longer counts with its own time.
    """
    at, interval = round(snapshot.at * 1e6), max(interval, snapshot.scan_seconds)
    rows = [
        (at, interval, *fields) for group in snapshot.groups.values() for fields in _of_group(group)
    ]
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _of_group(group: GroupStatus) -> Iterator[tuple[object, ...]]:
    dead = None if group.dead is None else group.dead.messages
    for row in group.rows():
        yield (*_of_queue(row), dead)


def _of_queue(row: QueueStatus) -> tuple[object, ...]:
    return (
        row.group,
        row.queue.topic,
        row.queue.broker_name,
        row.queue.queue_id,
        str(row.state),
        row.minimum,
        row.committed,
        row.maximum,
        row.backlog,
        row.head_age,
        row.in_rate,
        row.out_rate,
        row.owner,
        None if row.parked is None else len(row.parked),
    )
