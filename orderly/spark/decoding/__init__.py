"""Stored messages to Arrow: the bytes of pulls in, record batches out. No I/O, no Spark.

Plain messages, nearly all, are decoded a block at a time (`bulk`); the others by a loop (`rows`),
which is also what says how bytes are broken that are no messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.protocol.stored_message import SysFlag, decode_messages, queue_offset_at
from orderly.spark.decoding.bulk import Bulk
from orderly.spark.decoding.heads import Ints, find_starts, plain_messages
from orderly.spark.decoding.rows import rows_of
from orderly.spark.decoding.wanted import Wanted

__all__ = ["Ints", "Wanted", "decode"]


def decode(
    data: bytes, queue: MessageQueue, wanted: Wanted, end: int | None = None
) -> tuple[pa.RecordBatch, Ints]:
    """Turn stored messages of a queue into rows.

    Bodies are compared with their checksums and unpacked only if they are asked for.

    Args:
        data: messages, one after the other, less than 2 GiB.
        queue: where they were pulled from; what the columns topic, broker and queue_id say.
        wanted: which columns, and which tags.
        end: the offset after the last of them, as the broker says it; None: not known.

    Returns:
        The rows in the order of the messages, and the queue offset of each.

    Raises:
        ProtocolError: bytes that are no messages.
        UndecodableBody: a body that is asked for cannot be read; names queue and offset.
    """
    starts = find_starts(data)
    if starts is None:  # broken, and the loop says where
        starts = np.zeros(1, np.int64)
        part = _by_loop(data, starts, starts, queue, wanted, end=end)
        return part.batch, part.offsets
    bulk, rest = _in_bulk(data, starts, queue, wanted)
    if not len(rest):
        return bulk.batch, bulk.offsets
    return _merged(bulk, _by_loop(data, starts, rest, queue, wanted, end=end))


class _Part(NamedTuple):
    """Rows of some messages, and the place of each one's message in the block."""

    batch: pa.RecordBatch
    offsets: Ints
    places: Ints


def _in_bulk(data: bytes, starts: Ints, queue: MessageQueue, wanted: Wanted) -> tuple[_Part, Ints]:
    """The rows of plain messages, and the places of the others."""
    messages, places = plain_messages(data, starts)
    bulk = Bulk(messages, queue, wanted)
    batch = bulk.batch()
    while bulk.odd.any():
        places = places[~bulk.odd]
        bulk = Bulk(bulk.messages.only(~bulk.odd), queue, wanted)
        batch = bulk.batch()
    left = np.ones(len(starts), np.bool_)
    left[places] = False
    part = _Part(batch, bulk.offsets(), places)
    if wanted.tags:
        mask = bulk.tagged()
        part = _Part(batch.filter(pa.array(mask)), part.offsets[mask], places[mask])
    return part, np.flatnonzero(left)


def _by_loop(
    data: bytes, starts: Ints, rest: Ints, queue: MessageQueue, wanted: Wanted, *, end: int | None
) -> _Part:
    """The rows of the messages at the places `rest`."""
    ends = np.append(starts[1:], len(data))
    following = [*map(partial(queue_offset_at, data), starts[1:].tolist()), end]
    found = [
        (place, message)
        for place in rest.tolist()
        for message in _members(data[starts[place] : ends[place]], queue, following[place])
        if not wanted.tags or message.tags in wanted.tags
    ]
    messages = [message for _, message in found]
    offsets = np.array([message.queue_offset for message in messages], np.int64)
    places = np.array([place for place, _ in found], np.int64)
    return _Part(rows_of(messages, queue, wanted), offsets, places)


def _members(data: bytes, queue: MessageQueue, end: int | None) -> Iterator[ReceivedMessage]:
    for message in decode_messages(data, queue.broker_name, end=end):
        if isinstance(message, UndecodableMessage) and message.sys_flag & SysFlag.INNER_BATCH:
            _ = message.body  # raises: how many rows it would be, nobody can tell
        yield message


def _merged(bulk: _Part, loop: _Part) -> tuple[pa.RecordBatch, Ints]:
    order = np.argsort(np.append(bulk.places, loop.places), kind="stable")
    both = pa.concat_batches([bulk.batch, loop.batch])
    return both.take(pa.array(order)), np.append(bulk.offsets, loop.offsets)[order]
