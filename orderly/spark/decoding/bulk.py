"""Columns of plain messages, a whole block at once: numpy and Arrow, no loop over messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orderly.model import MessageQueue
from orderly.protocol.properties import KEYS, SHARDING_KEY, TAGS, UNIQ_KEY
from orderly.protocol.stored_message import SysFlag
from orderly.spark.columns import COLUMNS
from orderly.spark.decoding.entries import Entries, find_entries
from orderly.spark.decoding.heads import Ints, Mask, Plain
from orderly.spark.decoding.rows import FIRST_TIME, LAST_TIME, number_in
from orderly.spark.decoding.slices import slices
from orderly.spark.decoding.wanted import Wanted

_COMPRESSED = int(SysFlag.COMPRESSED)
_ID_PARTS = ("store_host", "physical_offset")  # of an offset message id
_HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)


@dataclass(slots=True)
class Bulk:
    """Plain messages of a queue, and the columns wanted of them.

    Attributes:
        messages, queue, wanted: of what to make what.
        odd: messages that turned out to be work for the loop; where there are some, what was
            made is to be thrown away.
    """

    messages: Plain
    queue: MessageQueue
    wanted: Wanted
    odd: Mask = field(init=False)
    _found: Entries | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.odd = np.zeros(len(self.messages), np.bool_)

    def batch(self) -> pa.RecordBatch:
        """All rows."""
        arrays = [_COLUMNS[name](self) for name in self.wanted.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.wanted.schema)

    def offsets(self) -> Ints:
        """The queue offset of each row."""
        return self.messages.heads["queue_offset"].astype(np.int64)

    def tagged(self) -> Mask:
        """Which rows have one of the wanted tags."""
        tags = pa.array(sorted(self.wanted.tags), pa.string())
        mask: Mask = pc.is_in(self.property(TAGS), value_set=tags).to_numpy(zero_copy_only=False)
        return mask

    def property(self, name: str) -> pa.Array:
        """A property, null where a message has none."""
        return self._entries().named(name)

    def properties(self) -> pa.Array:
        """All properties."""
        maps, repeats = self._entries().maps()
        self.odd |= repeats
        return maps

    def number(self) -> pa.Array:
        """The property that is to be a number, as one; null where it is none."""
        if not self.wanted.seq_property:
            return pa.nulls(len(self.messages), pa.int64())
        texts = self.property(self.wanted.seq_property)
        if not _may_be_hexadecimal(texts):
            try:
                return texts.cast(pa.int64())
            except pa.ArrowInvalid:  # one is no number, or beyond 64 bits
                pass
        return pa.array([number_in(text) for text in texts.to_pylist()], pa.int64())

    def body(self) -> pa.Array:
        """The bodies. Whoever does not ask for them pays neither for sums nor for unpacking."""
        messages = self.messages
        self.odd |= (messages.heads["sys_flag"] & _COMPRESSED != 0) | ~messages.intact()
        return slices(messages.data, messages.body_at, messages.body_end, pa.binary())

    def ids(self) -> pa.Array:
        """Offset message ids: store host and place in the log, in hexadecimal digits."""
        heads = self.messages.heads
        parts = [np.ascontiguousarray(heads[name]).view((np.uint8, 8)) for name in _ID_PARTS]
        digits = _HEX[np.concatenate(parts, axis=1)]
        cuts = 2 * digits.shape[1] * np.arange(len(heads) + 1, dtype=np.int32)
        buffers = [None, pa.py_buffer(cuts), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.string(), len(heads), buffers)

    def _entries(self) -> Entries:
        if self._found is None:
            self._found = find_entries(self.messages)
            self.odd |= self._found.illegible()
        return self._found


def _may_be_hexadecimal(texts: pa.Array) -> bool:
    """Whether there is an x: Arrow would take 0x10 for a number, too."""
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return bool((data | np.uint8(0x20) == ord("x")).any())


def _field(field: str) -> Callable[[Bulk], pa.Array]:
    """A column that is a field of the head as it is."""

    def column(bulk: Bulk) -> pa.Array:
        values = bulk.messages.heads[field]
        return pa.array(values.astype(values.dtype.newbyteorder("=")))

    return column


def _time(field: str) -> Callable[[Bulk], pa.Array]:
    def column(bulk: Bulk) -> pa.Array:
        milliseconds = bulk.messages.heads[field].astype(np.int64)
        moments = np.clip(milliseconds, FIRST_TIME, LAST_TIME) * 1000
        return pa.array(moments).view(COLUMNS["born_ts"].arrow)

    return column


def _flags(bulk: Bulk) -> pa.Array:
    flags = bulk.messages.heads["sys_flag"].astype(np.int32)
    return pa.array(flags & ~np.int32(_COMPRESSED))  # as of a body that was unpacked


def _repeated(value: object, bulk: Bulk) -> pa.Array:
    return pa.repeat(value, len(bulk.messages))


_COLUMNS: dict[str, Callable[[Bulk], pa.Array]] = {
    "topic": lambda bulk: _repeated(bulk.queue.topic, bulk),
    "broker": lambda bulk: _repeated(bulk.queue.broker_name, bulk),
    "queue_id": lambda bulk: _repeated(pa.scalar(bulk.queue.queue_id, pa.int32()), bulk),
    "queue_offset": _field("queue_offset"),
    "msg_id": Bulk.ids,
    "uniq_key": lambda bulk: bulk.property(UNIQ_KEY),
    "tag": lambda bulk: bulk.property(TAGS),
    "keys": lambda bulk: bulk.property(KEYS),
    "sharding_key": lambda bulk: bulk.property(SHARDING_KEY),
    "seq": Bulk.number,
    "born_ts": _time("born_time"),
    "store_ts": _time("store_time"),
    "reconsume_times": _field("reconsume_times"),
    "sys_flag": _flags,
    "store_size": _field("size"),
    "commitlog_offset": _field("physical_offset"),
    "body": Bulk.body,
    "properties": Bulk.properties,
}
