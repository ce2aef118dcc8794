"""A range of a queue as record batches: every message of it once, or it is said which are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from orderly.client import Client
from orderly.protocol.heartbeat import Subscription
from orderly.spark.decoding import Ints, Wanted, decode
from orderly.spark.offsets.losses import Loss, data_lost
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reading.pipeline import Pipeline
from orderly.spark.reading.scan import Scan

LEFT_OUT = "left out by the broker: it can't read them, or its log was compacted"

_Block = tuple[int, int, bytes]


def read_range(
    client: Client, scan: Scan, wanted: QueueRange, losses: Callable[[Loss], None]
) -> Iterator[pa.RecordBatch]:
    """Read a range; what it takes of memory does not depend on the range.

    Nothing but pulls: no membership, no lock, no commit.

    Args:
        client: whose connections are used; it need not be started.
        scan: what is read, and how.
        wanted: the range.
        losses: told of messages that are gone, unless that is an error.

    Returns:
        Batches with the schema of `scan.columns`, made of `scan.batch_bytes` each.

    Raises:
        DataLost: messages of the range are gone, and `scan.fail_on_data_loss`.
        RemotingError, RouteError: the broker was away for too long.
        BrokerError: it refuses.
        ProtocolError: bytes that are no messages.
    """

    def lost(loss: Loss) -> None:
        if scan.fail_on_data_loss:
            raise data_lost([loss])
        losses(loss)

    tags = Subscription.from_expression(wanted.queue.topic, scan.tags, version=0).tags
    columns = Wanted(scan.columns, scan.seq_property, tags)
    pieces = Pipeline(client, scan, wanted, lost).pieces()
    for start, pulled_to, data in _blocks(pieces, scan.batch_bytes):
        end = min(pulled_to, wanted.end)
        batch, offsets = _between(*decode(data, wanted.queue, columns, pulled_to), start, end)
        if not tags and len(batch) < end - start:
            for first, last in _holes(offsets, start, end):
                lost(Loss(wanted.queue, first, last, LEFT_OUT))
        if len(batch):
            yield batch


def _blocks(pieces: Iterable[_Block], size: int) -> Iterator[_Block]:
    """Put pieces that follow each other together, until they have `size` bytes."""
    bodies: list[bytes] = []
    begin = at = gathered = 0
    for start, end, body in pieces:
        if bodies and (start != at or gathered >= size):
            yield begin, at, b"".join(bodies)
            bodies, gathered = [], 0
        if not bodies:
            begin = start
        bodies.append(body)
        gathered += len(body)
        at = end
    if bodies:
        yield begin, at, b"".join(bodies)


def _between(
    batch: pa.RecordBatch, offsets: Ints, start: int, end: int
) -> tuple[pa.RecordBatch, Ints]:
    """The rows within a range, each once: a batch that a broker stores as one comes whole."""
    if not len(offsets):
        return batch, offsets
    if offsets[0] >= start and offsets[-1] < end and bool((np.diff(offsets) > 0).all()):
        return batch, offsets
    before = np.maximum.accumulate(np.append(start - 1, offsets[:-1]))
    kept = (offsets > before) & (offsets < end)
    return batch.filter(pa.array(kept)), offsets[kept]


def _holes(offsets: Ints, start: int, end: int) -> list[tuple[int, int]]:
    """The ranges between `start` and `end` that rising `offsets` leave out."""
    edges = np.concatenate([[start - 1], offsets, [end]])
    before = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]) + 1, int(edges[i + 1])) for i in before]
