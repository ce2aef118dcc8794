"""Stored messages to Arrow: the bytes of pulls in, record batches out. No I/O, no Spark.

Plain messages, nearly all, are decoded a block at a time (`Bulk`), without a loop over messages.
The others are decoded one by one (`rows_of`), which also says how bytes are broken that are no
messages.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orderly.errors import ConfigError
from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.protocol.moments import FIRST_MOMENT, LAST_MOMENT, milliseconds_of
from orderly.protocol.properties import ATTEMPT, KEYS, SHARDING_KEY, TAGS, UNIQ_KEY, attempt_of
from orderly.protocol.stored_message import (
    MAGIC_V1,
    MOST_TRIES,
    SysFlag,
    decode_messages,
    queue_offset_at,
)
from orderly.spark.columns import COLUMNS, arrow_schema


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """Columns and rows wanted.

    Attributes:
        columns: names, in the order wanted.
        seq_property: the property that column `seq` is read from; empty: `seq` is null.
        tags: rows with other tags are left out; empty: all rows.
        only: by column, the texts that rows may have; other rows are left out. Columns of texts.
        schema: of the batches.

    Raises:
        ConfigError: a name that is no column's, or a property that no message can have.
    """

    columns: tuple[str, ...]
    seq_property: str = ""
    tags: frozenset[str] = frozenset()
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    schema: pa.Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not {"\x01", "\x02"}.isdisjoint(self.seq_property):
            raise ConfigError(
                f"{self.seq_property!r} names no property: \\x01 and \\x02 separate properties"
            )
        object.__setattr__(self, "schema", arrow_schema(self.columns))


class Decoded(NamedTuple):
    """Rows in the order of the messages.

    Attributes:
        batch: the rows.
        offsets: the queue offset of each.
        seen: the offsets of all messages with a wanted tag, rows or not.
    """

    batch: pa.RecordBatch
    offsets: Ints
    seen: Ints


def decode(
    data: bytes, queue: MessageQueue, wanted: WantedColumns, end: int | None = None
) -> Decoded:
    """Turn stored messages of a queue into rows.

    Bodies are compared with their checksums and unpacked only if they are asked for, and nothing
    but the texts of `wanted.only` is looked at of messages that are left out for them.

    Args:
        data: messages, one after the other, less than 2 GiB.
        queue: where they were pulled from; what the columns topic, broker and queue_id say.
        wanted: which columns, and which tags.
        end: the offset after the last of them, as the broker says it; None: not known.

    Raises:
        ProtocolError: bytes that are no messages.
        UndecodableBody: a body that is asked for cannot be read; names queue and offset.
    """
    starts = find_starts(data)
    if starts is None:  # broken, and the loop says where
        starts = np.zeros(1, np.int64)
        part = _by_loop(data, starts, starts, queue, wanted, end=end)
        return Decoded(part.batch, part.offsets, part.seen)
    bulk, rest = _in_bulk(data, starts, queue, wanted)
    if not len(rest):
        return Decoded(bulk.batch, bulk.offsets, bulk.seen)
    return _merged(bulk, _by_loop(data, starts, rest, queue, wanted, end=end))


class _Part(NamedTuple):
    """Rows of some messages: each one's offset, and the place of its message in the block.

    Likewise of all messages with a wanted tag: `seen`, `seen_places`.
    """

    batch: pa.RecordBatch
    offsets: Ints
    places: Ints
    seen: Ints
    seen_places: Ints


def _in_bulk(
    data: bytes, starts: Ints, queue: MessageQueue, wanted: WantedColumns
) -> tuple[_Part, Ints]:
    """The rows of plain messages, and the places of the others."""
    messages, places = plain_messages(data, starts)
    left = np.ones(len(starts), np.bool_)
    left[places] = False
    while True:
        bulk = Bulk(messages, queue, wanted)
        tagged, fits = bulk.tagged(), bulk.fitting()
        kept = tagged & fits
        rows = bulk if kept.all() else Bulk(messages.only(kept), queue, wanted)
        batch = rows.batch()
        odd = bulk.odd.copy()
        odd[kept] |= rows.odd
        if not odd.any():
            break
        left[places[odd]] = True
        messages, places = messages.only(~odd), places[~odd]
    seen = bulk.offsets()
    part = _Part(batch, seen[kept], places[kept], seen[tagged], places[tagged])
    return part, np.flatnonzero(left)


def _by_loop(
    data: bytes,
    starts: Ints,
    rest: Ints,
    queue: MessageQueue,
    wanted: WantedColumns,
    *,
    end: int | None,
) -> _Part:
    """The rows of the messages at the places `rest`."""
    ends = np.append(starts[1:], len(data))
    following = [*map(partial(queue_offset_at, data), starts[1:].tolist()), end]
    seen = [
        (place, message)
        for place in rest.tolist()
        for message in _members(data[starts[place] : ends[place]], queue, following[place])
        if not wanted.tags or message.tags in wanted.tags
    ]
    found = [
        (place, message)
        for place, message in seen
        if all(_value(name, message, queue, wanted) in texts for name, texts in wanted.only.items())
    ]
    batch = rows_of([message for _, message in found], queue, wanted)
    return _Part(batch, *_where(found), *_where(seen))


def _where(found: Sequence[tuple[int, ReceivedMessage]]) -> tuple[Ints, Ints]:
    """The offsets and the places of messages."""
    offsets = np.array([message.queue_offset for _, message in found], np.int64)
    return offsets, np.array([place for place, _ in found], np.int64)


def _members(data: bytes, queue: MessageQueue, end: int | None) -> Iterator[ReceivedMessage]:
    for message in decode_messages(data, queue.broker_name, end=end):
        if isinstance(message, UndecodableMessage) and message.sys_flag & SysFlag.INNER_BATCH:
            _ = message.body  # raises: how many rows it would be, nobody knows
        yield message


def _merged(bulk: _Part, loop: _Part) -> Decoded:
    both = pa.concat_batches([bulk.batch, loop.batch])
    rows = np.argsort(np.append(bulk.places, loop.places), kind="stable")
    seen = np.argsort(np.append(bulk.seen_places, loop.seen_places), kind="stable")
    return Decoded(
        both.take(pa.array(rows)),
        np.append(bulk.offsets, loop.offsets)[rows],
        np.append(bulk.seen, loop.seen)[seen],
    )


# --- where messages begin, and what their fixed heads say -----------------------------------------
# Only plain messages are looked into: version 1, IPv4 hosts, not a batch of others, all sizes in
# agreement. Everything else, broken ones included, is left to the loop, which handles all cases.


Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# As `stored_message` reads it: MessageDecoder's layout up to the body, with IPv4 hosts.
HEAD = np.dtype(
    [
        ("size", ">i4"), ("magic", ">u4"), ("checksum", ">u4"), ("queue_id", ">i4"),
        ("flag", ">i4"), ("queue_offset", ">i8"), ("physical_offset", ">i8"), ("sys_flag", ">i4"),
        ("born_time", ">i8"), ("born_host", "V8"), ("store_time", ">i8"), ("store_host", "V8"),
        ("reconsume_times", ">i4"), ("transaction", ">i8"), ("body_size", ">i4"),
    ]
)  # fmt: skip
_SMALLEST = HEAD.itemsize + 1 + 2  # and the sizes of the topic and of the properties
_MAGIC_AT = 4
_FIRST_OF_MAGIC = MAGIC_V1 >> 24
_HEADS_V6 = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)
_INNER_BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


def anywhere(data: bytes | npt.NDArray[np.uint8], dtype: npt.DTypeLike) -> npt.NDArray[np.void]:
    """See `data` as values of `dtype` that begin at every byte; index it by where they begin."""
    kind = np.dtype(dtype)
    return np.ndarray((max(len(data) - kind.itemsize + 1, 0),), kind, data, strides=(1,))


def find_starts(data: bytes) -> Ints | None:
    """Where messages begin; None if their sizes do not lead from one to the next to the end."""
    starts = _where_magic_is(data)
    if starts is None:
        starts = _walk(data)
    return starts


def _where_magic_is(data: bytes) -> Ints | None:
    """The starts by the magic number; None unless the sizes agree."""
    found = np.flatnonzero(np.frombuffer(data, np.uint8) == _FIRST_OF_MAGIC) - _MAGIC_AT
    first, last = np.searchsorted(found, [0, len(data) - _SMALLEST + 1])
    heads = anywhere(data, [("size", ">i4"), ("magic", ">u4")])[found[first:last]]
    is_magic = heads["magic"] == MAGIC_V1
    starts, sizes = found[first:last][is_magic], heads["size"][is_magic]
    nexts = np.append(starts, len(data))
    agreed = nexts[0] == 0 and bool((nexts[:-1] + sizes == nexts[1:]).all())
    return starts if agreed else None


def _walk(data: bytes) -> Ints | None:
    """The starts by the sizes, one after the other."""
    size_at = struct.Struct(">i").unpack_from
    starts, at, end = [], 0, len(data)
    while at + _SMALLEST <= end:
        starts.append(at)
        (size,) = size_at(data, at)
        if size < _SMALLEST:
            return None
        at += size
    return np.array(starts, np.int64) if at == end else None


@dataclass(slots=True)
class PlainMessages:
    """Plain messages of a block, in columns.

    Attributes:
        data: the block.
        heads: of dtype HEAD.
        body_at, body_end: where each body lies in `data`.
        properties_at, properties_end: likewise.
    """

    data: bytes
    heads: npt.NDArray[np.void]
    body_at: Ints
    body_end: Ints
    properties_at: Ints
    properties_end: Ints

    def __len__(self) -> int:
        return len(self.heads)

    def only(self, rows: Ints | Mask) -> PlainMessages:
        """Some of them."""
        return PlainMessages(
            self.data,
            self.heads[rows],
            self.body_at[rows],
            self.body_end[rows],
            self.properties_at[rows],
            self.properties_end[rows],
        )

    def sums(self) -> Ints:
        """The checksums of the bodies."""
        data, crc32 = self.data, zlib.crc32
        slices = zip(self.body_at.tolist(), self.body_end.tolist(), strict=True)
        return np.array([crc32(data[start:end]) for start, end in slices], np.int64)

    def intact(self) -> Mask:
        """Which bodies have their checksum."""
        intact: Mask = self.sums() & 0x7FFFFFFF == self.heads["checksum"]
        return intact


def plain_messages(data: bytes, starts: Ints) -> tuple[PlainMessages, Ints]:
    """The plain ones among the messages at `starts`, and which of them those are."""
    heads = anywhere(data, f"V{HEAD.itemsize}")[starts].view(HEAD)
    ends = starts + heads["size"]
    body_at = starts + HEAD.itemsize
    body_end = body_at + heads["body_size"]
    plain = (heads["magic"] == MAGIC_V1) & (heads["sys_flag"] & _HEADS_V6 == 0)
    plain &= heads["sys_flag"] & _INNER_BATCH != _INNER_BATCH
    plain &= (body_end >= body_at) & (body_end <= ends - 3)
    topic_at = np.where(plain, body_end, 0)  # others are left out below: any byte will do
    topic_size = np.frombuffer(data, np.uint8)[topic_at]
    topic_end = topic_at + 1 + topic_size
    plain &= (topic_size > 0) & (topic_end <= ends - 2)
    size_at = np.where(plain, topic_end, 0)
    properties_at = size_at + 2
    properties_end = properties_at + anywhere(data, ">i2")[size_at]
    plain &= (properties_end >= properties_at) & (properties_end == ends)
    found = PlainMessages(data, heads, body_at, body_end, properties_at, properties_end)
    rows = np.flatnonzero(plain)
    return (found if len(rows) == len(starts) else found.only(rows)), rows


def slices(
    data: bytes | npt.NDArray[np.uint8], starts: Ints, ends: Ints, kind: pa.DataType
) -> pa.Array:
    """The column whose values are `data[start:end]`; slices rise and do not overlap.

    Starts and ends in turn are the offsets of an Arrow array over the buffer as it is; every
    second of its values is a wanted one.
    """
    if not len(starts):
        return pa.array([], kind)
    cuts = np.empty(2 * len(starts), np.int32)
    cuts[::2], cuts[1::2] = starts, ends
    buffers = [None, pa.py_buffer(cuts), pa.py_buffer(data)]
    over = pa.Array.from_buffers(kind, len(cuts) - 1, buffers)
    return over.take(pa.array(np.arange(0, len(cuts), 2)))


# --- properties of a whole block ------------------------------------------------------------------
# These are the entries `name 0x01 value 0x02` of all its messages at once. The result equals
# `decode_properties` of each message: names end at their first 0x01, entries without a name or a
# value do not count, and of several with one name the last one's value does.


_NAME_END, _VALUE_END = 1, 2
_WORD = 8  # bytes


@dataclass(slots=True)
class Entries:
    """All entries of a block.

    Attributes:
        text: the properties of all messages in a row, every entry with its 0x02; then a word more.
        rows: where the properties of each message begin in `text`, and where the last ones end.
        starts, ends: where each entry begins, and where its 0x02 is.
        words: the first eight bytes of each.
    """

    text: npt.NDArray[np.uint8]
    rows: Ints
    starts: Ints
    ends: Ints
    words: npt.NDArray[np.uint64]

    def illegible(self) -> Mask:
        """Which messages have properties that are no UTF-8."""
        try:
            str(self.text.data, "utf-8")
        except UnicodeDecodeError:
            bounds = zip(self.rows[:-1].tolist(), self.rows[1:].tolist(), strict=True)
            return np.array([_is_illegible(self.text[start:end]) for start, end in bounds])
        return np.zeros(len(self.rows) - 1, np.bool_)

    def named(self, name: str) -> pa.Array:
        """The values of one property, by message; null where it has none."""
        starts, ends = self._values_after(name.encode() + bytes([_NAME_END]))
        rows = np.searchsorted(self.rows, starts, side="right") - 1
        last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        values = slices(self.text, starts[last], ends[last], pa.string())
        count = len(self.rows) - 1
        if len(values) == count:
            return values
        places = np.full(count, -1)
        places[rows[last]] = np.arange(len(values))
        return values.take(pa.array(places, mask=places < 0))

    def _values_after(self, head: bytes) -> tuple[Ints, Ints]:
        """Where the values of the entries that begin with `head` begin and end."""
        size = min(len(head), _WORD)
        mask = np.uint64((1 << 8 * size) - 1)
        word = np.uint64(int.from_bytes(head[:size], "little"))
        found = np.flatnonzero(self.words & mask == word)
        starts, ends = self.starts[found] + len(head), self.ends[found]
        whole = starts < ends
        if len(head) > _WORD:
            tails = anywhere(self.text, f"S{len(head) - _WORD}")
            whole[whole] = tails[starts[whole] - len(head) + _WORD] == head[_WORD:]
        return (starts, ends) if whole.all() else (starts[whole], ends[whole])

    def maps(self) -> tuple[pa.Array, Mask]:
        """All properties of each message, and which messages have one name several times."""
        starts, ends, middles = self.starts, self.ends, self._name_ends()
        whole = (starts < middles) & (middles + 1 < ends)
        if not whole.all():
            starts, ends, middles = starts[whole], ends[whole], middles[whole]
        names = slices(self.text, starts, middles, pa.string())
        values = slices(self.text, middles + 1, ends, pa.string())
        bounds = np.searchsorted(starts, self.rows).astype(np.int32)
        maps = pa.MapArray.from_arrays(
            pa.array(bounds), names, values, type=COLUMNS["properties"].arrow
        )
        return maps, _with_repeats(names, bounds)

    def _name_ends(self) -> Ints:
        """The first 0x01 of each entry; its end if it has none."""
        found = np.flatnonzero(self.text == _NAME_END)
        if len(found) == len(self.starts) and bool(
            ((self.starts <= found) & (found < self.ends)).all()
        ):
            return found
        nexts: Ints = np.append(found, len(self.text))[np.searchsorted(found, self.starts)]
        return np.minimum(nexts, self.ends)


def find_entries(messages: PlainMessages) -> Entries:
    """The entries of the properties of messages."""
    raw, ends = np.frombuffer(messages.data, np.uint8), messages.properties_end
    # Some clients leave out the last 0x02. It is written where the next message begins: to a copy.
    cut = (raw[ends - 1] != _VALUE_END) & (messages.properties_at < ends)
    if cut.any():
        raw = np.append(raw, np.uint8(0))
        raw[ends[cut]] = _VALUE_END
        ends = ends + cut
    rows = np.append(0, np.cumsum(ends - messages.properties_at))
    text = np.zeros(rows[-1] + _WORD, np.uint8)
    packed = slices(raw, messages.properties_at, ends, pa.binary()).buffers()[2]
    text[: rows[-1]] = np.frombuffer(packed or b"", np.uint8)[: rows[-1]]
    found = np.flatnonzero(text == _VALUE_END)
    starts = np.append(0, found[:-1] + 1)[: len(found)]
    return Entries(text, rows, starts, found, anywhere(text, "<u8")[starts].astype(np.uint64))


def _is_illegible(text: npt.NDArray[np.uint8]) -> bool:
    try:
        str(text.data, "utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _with_repeats(names: pa.Array, bounds: npt.NDArray[np.int32]) -> Mask:
    """Which rows hold an equal name twice; names of row n are those from bounds[n] on."""
    codes = names.dictionary_encode()
    rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    pairs = rows * max(len(codes.dictionary), 1) + np.asarray(codes.indices)
    repeats = np.zeros(len(bounds) - 1, np.bool_)
    if not (np.diff(pairs) > 0).all():  # in most topics names come in one order
        order = np.argsort(pairs, kind="stable")
        again = np.flatnonzero(np.diff(pairs[order]) == 0)
        repeats[rows[order[again]]] = True
    return repeats


# --- columns of plain messages, a whole block at once ---------------------------------------------


_COMPRESSED = int(SysFlag.COMPRESSED)
_ID_FIELDS = ("store_host", "physical_offset")  # of an offset message id
_HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)


@dataclass(slots=True)
class Bulk:
    """Plain messages of a queue, and the columns wanted of them.

    Attributes:
        messages, queue, wanted: of what to make what.
        odd: messages that turned out to be work for the loop; where there are some, what was
            made is to be thrown away.
    """

    messages: PlainMessages
    queue: MessageQueue
    wanted: WantedColumns
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
        """Which messages have one of the wanted tags."""
        if not self.wanted.tags:
            return np.ones(len(self.messages), np.bool_)
        return _among(self.property(TAGS), self.wanted.tags)

    def fitting(self) -> Mask:
        """Which messages have the texts that are wanted."""
        found = np.ones(len(self.messages), np.bool_)
        for name, texts in self.wanted.only.items():
            found &= _among(_COLUMNS[name](self), texts)
        return found

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
        values = texts.cast(pa.binary()).to_pylist()  # damaged ones need not be UTF-8: `odd` ones
        numbers = [number_in((value or b"").decode(errors="replace")) for value in values]
        return pa.array(numbers, pa.int64())

    def body(self) -> pa.Array:
        """The bodies. Whoever does not ask for them pays neither for sums nor for unpacking."""
        messages = self.messages
        self.odd |= (messages.heads["sys_flag"] & _COMPRESSED != 0) | ~messages.intact()
        return slices(messages.data, messages.body_at, messages.body_end, pa.binary())

    def attempts(self) -> pa.Array:
        """Which attempts of sends they are, null for those without a mark of their own."""
        marks = self.property(ATTEMPT).cast(pa.binary())  # as in `number`
        found: list[int | None] = [None] * len(marks)
        born = _milliseconds(self, "born_time")
        for row in np.flatnonzero(marks.is_valid()).tolist():
            text = marks[row].as_py().decode(errors="replace")
            found[row] = _attempt({ATTEMPT: text}, int(born[row]))
        return pa.array(found, pa.int32())

    def body_sums(self) -> pa.Array:
        """Lengths and checksums of the bodies."""
        messages = self.messages
        self.odd |= messages.heads["sys_flag"] & _COMPRESSED != 0
        sizes = messages.body_end - messages.body_at
        return pa.array(sizes << _SUM_BITS | messages.sums())

    def ids(self) -> pa.Array:
        """Offset message ids: store host and place in the log, in hexadecimal digits."""
        heads = self.messages.heads
        parts = [np.ascontiguousarray(heads[name]).view((np.uint8, 8)) for name in _ID_FIELDS]
        digits = _HEX[np.concatenate(parts, axis=1)]
        cuts = 2 * digits.shape[1] * np.arange(len(heads) + 1, dtype=np.int32)
        buffers = [None, pa.py_buffer(cuts), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.string(), len(heads), buffers)

    def _entries(self) -> Entries:
        if self._found is None:
            self._found = find_entries(self.messages)
            self.odd |= self._found.illegible()
        return self._found


def _among(column: pa.Array, texts: Collection[str]) -> Mask:
    wanted = pa.array(sorted(texts), pa.string())
    found: Mask = pc.is_in(column, value_set=wanted).to_numpy(zero_copy_only=False)
    return found


def _may_be_hexadecimal(texts: pa.Array) -> bool:
    """Whether there is an x: Arrow would take 0x10 for a number, too."""
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return bool((data | np.uint8(0x20) == ord("x")).any())


def _field_column(field: str) -> Callable[[Bulk], pa.Array]:
    """A column that is a field of the head as it is."""

    def column(bulk: Bulk) -> pa.Array:
        values = bulk.messages.heads[field]
        return pa.array(values.astype(values.dtype.newbyteorder("=")))

    return column


def _time_column(field: str) -> Callable[[Bulk], pa.Array]:
    def column(bulk: Bulk) -> pa.Array:
        return pa.array(_milliseconds(bulk, field) * 1000).view(COLUMNS["born_ts"].arrow)

    return column


def _milliseconds(bulk: Bulk, field: str) -> Ints:
    """A moment of each message, kept to the calendar."""
    return np.clip(bulk.messages.heads[field].astype(np.int64), FIRST_MOMENT, LAST_MOMENT)


def _tries_column(bulk: Bulk) -> pa.Array:
    return pa.array(np.clip(bulk.messages.heads["reconsume_times"].astype(np.int32), 0, MOST_TRIES))


def _flags_column(bulk: Bulk) -> pa.Array:
    flags = bulk.messages.heads["sys_flag"].astype(np.int32)
    return pa.array(flags & ~np.int32(_COMPRESSED))  # as of a body that was unpacked


def _repeated(value: object, bulk: Bulk) -> pa.Array:
    return pa.repeat(value, len(bulk.messages))


_COLUMNS: dict[str, Callable[[Bulk], pa.Array]] = {
    "topic": lambda bulk: _repeated(bulk.queue.topic, bulk),
    "broker": lambda bulk: _repeated(bulk.queue.broker_name, bulk),
    "queue_id": lambda bulk: _repeated(pa.scalar(bulk.queue.queue_id, pa.int32()), bulk),
    "queue_offset": _field_column("queue_offset"),
    "msg_id": Bulk.ids,
    "uniq_key": lambda bulk: bulk.property(UNIQ_KEY),
    "tag": lambda bulk: bulk.property(TAGS),
    "keys": lambda bulk: bulk.property(KEYS),
    "sharding_key": lambda bulk: bulk.property(SHARDING_KEY),
    "seq": Bulk.number,
    "born_ts": _time_column("born_time"),
    "store_ts": _time_column("store_time"),
    "reconsume_times": _tries_column,
    "sys_flag": _flags_column,
    "store_size": _field_column("size"),
    "commitlog_offset": _field_column("physical_offset"),
    "body": Bulk.body,
    "properties": Bulk.properties,
    "attempt": Bulk.attempts,
    "body_sum": Bulk.body_sums,
}


# --- rows one by one, from messages read by `stored_message` --------------------------------------
# Right for every message, and slow. What is decoded in bulk is held to this; what cannot be, comes
# here.


_NUMBER = re.compile(r"(-?)0*([0-9]{1,19})")  # as many digits as the largest 64-bit number has
_INT64 = range(-(2**63), 2**63)


def rows_of(
    messages: Sequence[ReceivedMessage], queue: MessageQueue, wanted: WantedColumns
) -> pa.RecordBatch:
    """A row for each message."""
    arrays = [
        pa.array(
            [_value(name, message, queue, wanted) for message in messages], COLUMNS[name].arrow
        )
        for name in wanted.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted.schema)


def _value(name: str, message: ReceivedMessage, queue: MessageQueue, wanted: WantedColumns) -> Any:
    if name == "seq":
        return number_in(message.properties.get(wanted.seq_property))
    if name in _OF_QUEUE:
        return _OF_QUEUE[name](queue)
    return _OF_MESSAGE[name](message)


def number_in(text: str | None) -> int | None:
    """The 64-bit number that a property is, in decimal digits; None if it is none."""
    match = _NUMBER.fullmatch(text or "")
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if number in _INT64 else None


def _microseconds(seconds: float) -> int:
    return milliseconds_of(seconds) * 1000


_SUM_BITS = 32


def _attempt(properties: Mapping[str, str], born: int) -> int | None:
    """Which attempt of a send a message is; None for one that is not marked."""
    found = attempt_of(properties, born)
    return found if found > 1 else None


def _body_sum(body: bytes) -> int:
    return len(body) << _SUM_BITS | zlib.crc32(body)


# A message knows its topic and queue, too; those asked are what a range of offsets counts in.
_OF_QUEUE: dict[str, Callable[[MessageQueue], Any]] = {
    "topic": lambda queue: queue.topic,
    "broker": lambda queue: queue.broker_name,
    "queue_id": lambda queue: queue.queue_id,
}

_OF_MESSAGE: dict[str, Callable[[ReceivedMessage], Any]] = {
    "queue_offset": lambda message: message.queue_offset,
    "msg_id": lambda message: message.offset_message_id,
    "uniq_key": lambda message: message.properties.get(UNIQ_KEY),
    "tag": lambda message: message.properties.get(TAGS),
    "keys": lambda message: message.properties.get(KEYS),
    "sharding_key": lambda message: message.properties.get(SHARDING_KEY),
    "born_ts": lambda message: _microseconds(message.born_time),
    "store_ts": lambda message: _microseconds(message.store_time),
    "reconsume_times": lambda message: message.reconsume_times,
    "sys_flag": lambda message: message.sys_flag,
    "store_size": lambda message: message.stored_size,
    "commitlog_offset": lambda message: message.physical_offset,
    "body": lambda message: message.body,
    "properties": lambda message: list(message.properties.items()),
    "attempt": lambda message: _attempt(message.properties, milliseconds_of(message.born_time)),
    "body_sum": lambda message: _body_sum(message.raw_body),
}
