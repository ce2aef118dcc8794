"""A partition's rows, batch after batch, into pieces of batch requests; checked on the way.

Whole columns at once, in numpy and pyarrow. Nothing is sent here. All is pure but `Encoder`:
UNIQ_KEYs take their time and address from this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orderly.config import MIB
from orderly.errors import InvalidMessage
from orderly.message import Message
from orderly.producer.pending import MessageIds, check_message
from orderly.protocol import properties as names
from orderly.protocol.properties import MARK_ROOM, MAX_SENT_PROPERTIES, encode_properties
from orderly.selectors import KEYED
from orderly.spark.options import ROUND_ROBIN
from orderly.spark.placing import NUMBERS, PLACES, places, round_robin
from orderly.spark.stamps import ID, SEQ, STAMPS
from orderly.spark.write_plan import Roles, WritePlan

_CHUNK_BYTES = 8 * 1024 * 1024  # Arrow's; what is encoded at once takes a few times that
_CHUNK_ROWS = 65536  # of the ids made at one moment that is the number that differ


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some consecutive rows of a partition.

    Attributes:
        partition, first: which partition, and the number of the first row in it, from 0.
        body: binary.
        key: as it came, string or integer; what places the row. None: there is no such column.
        key_text: the key as it is sent.
        order: the column that numbers the rows of a key, as numbers (a timestamp: microseconds, a
            date: days, since 1970).
        tag, keys, id: strings.
        properties: maps of strings.
    """

    partition: int
    first: int
    body: pa.Array
    key: pa.Array | None
    key_text: pa.Array | None
    order: npt.NDArray[np.int64] | None
    tag: pa.Array | None
    keys: pa.Array | None
    properties: pa.Array | None
    id: pa.Array | None

    def __len__(self) -> int:
        return len(self.body)

    def where(self, row: int) -> str:
        """Name one of the rows, for an error."""
        return f"row {self.first + row} of partition {self.partition}"


def chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that encoding it takes a bounded amount of memory, with any bodies."""
    parts = max(-(-batch.nbytes // _CHUNK_BYTES), -(-batch.num_rows // _CHUNK_ROWS), 1)
    size = max(-(-batch.num_rows // parts), 1)
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def read_rows(batch: pa.RecordBatch, roles: Roles, partition: int, first: int) -> Rows:
    """Take the columns out of a batch.

    Args:
        batch: of one partition.
        roles: of its columns.
        partition: its number.
        first: how many rows of the partition came before.

    Raises:
        InvalidMessage: a row without a value in the `orderBy` column.
    """
    key = _column(batch, roles.key)
    rows = Rows(
        partition=partition,
        first=first,
        body=batch.column(roles.body).cast(pa.binary()),
        key=key,
        key_text=None if key is None else key.cast(pa.string()),
        order=None,
        tag=_text_column(batch, roles.tag),
        keys=_text_column(batch, roles.keys),
        properties=_column(batch, roles.properties),
        id=_text_column(batch, roles.id),
    )
    if roles.order is None:
        return rows
    column = batch.column(roles.order)
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InvalidMessage(f"{rows.where(row)}: {roles.order!r}, its place in the order, is null")
    return replace(rows, order=_numbers(column))


def _column(batch: pa.RecordBatch, name: str | None) -> pa.Array | None:
    return None if name is None else batch.column(name)


def _text_column(batch: pa.RecordBatch, name: str | None) -> pa.Array | None:
    return None if name is None else batch.column(name).cast(pa.string())


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()), dtype=np.int64)


# --- the properties of each row as the text they travel in ----------------------------------------
# The same text as `orderly.protocol.properties.encode_properties` makes. Nothing is checked here:
# see `check_rows`.


NAME_END, VALUE_END = 1, 2
_NAME_END, _VALUE_END = b"\x01", b"\x02"
_WAIT = names.WAIT.encode() + _NAME_END + b"true" + _VALUE_END


def property_texts(rows: Rows, ids: pa.Array, unique: pa.Array) -> pa.Array:
    """All properties of each row, as a binary array.

    Args:
        rows: what to send.
        ids: by which copies are recognised.
        unique: UNIQ_KEYs.
    """
    seq = None if rows.order is None else pa.array(rows.order).cast(pa.string())
    parts = [_property(names.UNIQ_KEY, unique), _WAIT, _property(ID, ids)]
    parts += [
        _property(name, column)
        for name, column in (
            (SEQ, seq),
            (names.SHARDING_KEY, rows.key_text),
            (names.TAGS, rows.tag),
            (names.KEYS, rows.keys),
        )
        if column is not None
    ]
    if rows.properties is not None:
        parts.append(_map_texts(rows.properties))
    return pc.binary_join_element_wise(*parts, b"")


def _property(name: str, values: pa.Array) -> pa.Array:
    """The property of each row; nothing where the value is null."""
    text = pc.binary_join_element_wise(
        name.encode() + _NAME_END, values.cast(pa.binary()), _VALUE_END, b""
    )
    return text.fill_null(b"") if text.null_count else text


def map_entries(
    maps: pa.Array,
) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int32]]:
    """All names and all values of a column of maps, and where each row's begin and end."""
    bounds = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset :][: len(maps) + 1]
    first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
    names_, values = maps.keys.slice(first, count), maps.items.slice(first, count)
    return names_, values, bounds - first


def _map_texts(maps: pa.Array) -> pa.Array:
    """The properties that each map holds, one after the other."""
    found, values, bounds = map_entries(maps)
    if not len(found):
        return pa.array([b""] * len(maps), pa.binary())
    text = pc.binary_join_element_wise(
        found.cast(pa.binary()), _NAME_END, values.cast(pa.binary()).fill_null(b""), _VALUE_END, b""
    )
    ends = np.frombuffer(text.buffers()[1], np.int32)
    # A row's properties lie side by side in the text: its bounds are those of its entries.
    return pa.Array.from_buffers(
        pa.binary(), len(maps), [None, pa.py_buffer(ends[bounds]), text.buffers()[2]]
    )


# --- members of batches, cut into pieces for each queue -------------------------------------------
# The bytes are those of `orderly.protocol.send.encode_batch`.


_MEMBER_HEAD = np.dtype(
    [("size", ">i4"), ("magic", ">i4"), ("checksum", ">i4"), ("flag", ">i4"), ("body", ">i4")]
)
_MEMBER_OVERHEAD = _MEMBER_HEAD.itemsize + 2  # two bytes for the size of the properties


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive members of a batch for one queue.

    Attributes:
        place: the queue's, in the topic's list.
        data: the members, encoded; a copy, so that what waits for one queue does not keep all.
        rows: how many.
    """

    place: int
    data: bytes
    rows: int

    @property
    def size(self) -> int:
        """Bytes that it takes in a request, which may have to be sent again."""
        return len(self.data) + MARK_ROOM * self.rows


def batch_members(body: pa.Array, texts: pa.Array) -> pa.Array:
    """Each message as a member of a batch, as a binary array.

    Args:
        body: binary.
        texts: the properties, binary.
    """
    body_sizes = np.asarray(pc.binary_length(body))
    text_sizes = np.asarray(pc.binary_length(texts))
    heads = np.zeros(len(body), _MEMBER_HEAD)
    heads["size"] = _MEMBER_OVERHEAD + body_sizes + text_sizes
    heads["body"] = body_sizes
    return pc.binary_join_element_wise(
        column_of(heads), body, column_of(text_sizes.astype(">i2")), texts, b""
    )


def pieces(
    encoded: pa.Array, places: npt.NDArray[np.int64], queues: int, limit: int
) -> Iterator[Piece]:
    """Sort members by queue and cut them; rows of one queue keep their order.

    Args:
        encoded: by `batch_members`.
        places: of each, its queue's place.
        queues: how many the topic has.
        limit: bytes of a piece (its `size`); a longer member is a piece of its own.
    """
    by_queue = encoded.take(pa.array(np.argsort(places, kind="stable")))
    bounds = np.frombuffer(by_queue.buffers()[1], np.int32)
    data = memoryview(by_queue.buffers()[2])
    sizes = bounds + MARK_ROOM * np.arange(len(bounds))
    start = 0
    for place, count in enumerate(np.bincount(places, minlength=queues).tolist()):
        end = start + count
        while start < end:
            fitting = int(np.searchsorted(sizes, sizes[start] + limit, side="right")) - 1
            stop = min(max(fitting, start + 1), end)
            yield Piece(place, data[bounds[start] : bounds[stop]].tobytes(), stop - start)
            start = stop


def column_of(values: npt.NDArray[np.generic]) -> pa.Array:
    """The bytes of each element, as a binary array."""
    width, count = values.itemsize, len(values)
    bounds = np.arange(0, width * count + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(values.tobytes())]
    )


# --- ids that are the same for all copies of a message, and ids that are new for each copy --------


_ID_BYTES = 16
_UNIQUE_DIGITS = 4  # of the counter at the end of a UNIQ_KEY
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def recognition_ids(rows: Rows) -> pa.Array:
    """The id of each row: its own, or the hash of its key, its place in order and its body.

    A hash that nobody can make collide: a collision would be taken for a copy, and the message
    lost. The same in every process and release.
    """
    if rows.id is not None:
        return rows.id
    digests = b"".join(
        [blake2b(content, digest_size=_ID_BYTES).digest() for content in _contents(rows)]
    )
    return column_of(np.frombuffer(digests.hex().encode(), f"S{2 * _ID_BYTES}"))


def _contents(rows: Rows) -> list[bytes]:
    """Key, place in order and body of each row; different rows, different bytes."""
    assert rows.order is not None
    parts = [column_of(rows.order.astype(">i8")), rows.body.fill_null(b"")]
    if rows.key_text is not None:
        keys = rows.key_text.cast(pa.binary())
        # A missing key has the length -1, an empty one 0.
        sizes = pc.binary_length(keys).fill_null(-1)
        parts[:0] = [column_of(np.asarray(sizes).astype(">i4")), keys.fill_null(b"")]
    joined = pc.binary_join_element_wise(*parts, b"")
    contents: list[bytes] = joined.to_numpy(zero_copy_only=False).tolist()
    return contents


def unique_keys(prefix: str, first: int, count: int) -> pa.Array:
    """UNIQ_KEYs as `orderly.protocol.send.unique_key` makes them, all of one moment.

    Args:
        prefix: all digits but those of the counter.
        first: the counter's present value.
        count: how many; those of one moment differ if they are 65536 at most.
    """
    counters = np.arange(first, first + count)
    digits = np.empty((count, len(prefix) + _UNIQUE_DIGITS), np.uint8)
    digits[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    for place in range(_UNIQUE_DIGITS):
        digits[:, -1 - place] = _HEX[(counters >> 4 * place) & 0xF]
    return column_of(digits.view(f"S{digits.shape[1]}").reshape(count))


# --- whether all rows can be sent as they are -----------------------------------------------------
# Columns are looked at as a whole, which says whether something may be wrong somewhere. If so, the
# rows are given one after the other to the producer's own checks: they know what it is.


# The broker's limit holds for a stored message: to body and properties it adds 91 bytes, the
# topic's name and properties of its own (CommitLog, MessageExtEncoder).
MAX_MESSAGE = 4 * MIB - 1024
_ALWAYS = 3  # properties that every row has: UNIQ_KEY, WAIT, id


def check_rows(rows: Rows, texts: pa.Array, topic: str, *, key_needed: bool) -> None:
    """Refuse rows that the broker would refuse, drop or cut, or that no consumer could distinguish.

    Args:
        rows: to be sent.
        texts: their properties, as `property_texts` makes them.
        topic: where to.
        key_needed: whether a row without a key has no place.

    Raises:
        InvalidMessage: naming the first such row.
    """
    if not _sound(rows, texts, key_needed=key_needed):
        for row in range(len(rows)):
            _check_row(rows, row, texts, topic, key_needed=key_needed)


def _sound(rows: Rows, texts: pa.Array, *, key_needed: bool) -> bool:
    sizes = pc.add(pc.binary_length(rows.body), pc.binary_length(texts))
    return (
        _is_utf8(texts)
        and not (key_needed and rows.key_text is not None and rows.key_text.null_count)
        and _none_empty(rows.body)
        and rows.body.null_count == 0
        and (rows.id is None or rows.id.null_count == 0)
        and all(_none_empty(column) for column in (rows.id, rows.key_text, rows.tag, rows.keys))
        and _tags_fit(rows.tag)
        and _maps_fit(rows.properties)
        and _separators_fit(rows, texts)
        and pc.max(sizes).as_py() <= MAX_MESSAGE
        and pc.max(pc.binary_length(texts)).as_py() <= MAX_SENT_PROPERTIES
    )


def _none_empty(column: pa.Array | None) -> bool:
    return column is None or pc.min(pc.binary_length(column)).as_py() != 0


def _tags_fit(tags: pa.Array | None) -> bool:
    if tags is None:
        return True
    found = tags.unique().drop_null()
    stripped = pc.utf8_trim_whitespace(found)
    return bool(stripped.equals(found)) and not pc.any(pc.match_substring(found, "||")).as_py()


def _maps_fit(maps: pa.Array | None) -> bool:
    if maps is None:
        return True
    found, values, _ = map_entries(maps)
    return (
        values.null_count == 0
        and _none_empty(values)
        and _none_empty(found)
        and not (names.RESERVED | STAMPS).intersection(found.unique().to_pylist())
    )


def _separators_fit(rows: Rows, texts: pa.Array) -> bool:
    """Whether no value holds a separator: there are as many as there are properties."""
    wanted = len(rows) * (_ALWAYS + (rows.order is not None))
    for column in (rows.key_text, rows.tag, rows.keys):
        wanted += 0 if column is None else len(column) - column.null_count
    if rows.properties is not None:
        wanted += len(map_entries(rows.properties)[0])
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    return all(np.count_nonzero(data == end) == wanted for end in (NAME_END, VALUE_END))


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _check_row(rows: Rows, row: int, texts: pa.Array, topic: str, *, key_needed: bool) -> None:
    """Ask the producer's checks about one row, and say which row it was."""
    try:
        given = {name: column[row].as_py() for name, column in _columns(rows).items()}
        _check_present(given, key_needed=key_needed)
        found = dict(rows.properties[row].as_py() or ()) if rows.properties is not None else {}
        body, tag = rows.body[row].as_py(), given.get(names.TAGS)
        check_message(Message(topic, body, tags=tag, properties=found), MAX_MESSAGE)
        encode_properties(found | {k: v for k, v in given.items() if v is not None})
        _check_stamps(found)
        _check_size(len(body), len(texts[row].as_py()))
    except (InvalidMessage, UnicodeDecodeError) as error:
        raise InvalidMessage(f"{rows.where(row)}: {error}") from error


def _check_present(given: dict[str, str | None], *, key_needed: bool) -> None:
    if key_needed and given.get(names.SHARDING_KEY) is None:
        raise InvalidMessage("the key is null: without one it has no queue and no order")
    if given.get(ID, "") is None:
        raise InvalidMessage("the id is null: a repeated message could not be recognised")


def _check_stamps(found: dict[str, str]) -> None:
    for name in STAMPS.intersection(found):
        raise InvalidMessage(f"the property {name} is the sink's own; leave it out")


def _columns(rows: Rows) -> dict[str, pa.Array]:
    """The columns that become properties, by the property's name."""
    columns = {
        ID: rows.id,
        names.SHARDING_KEY: rows.key_text,
        names.TAGS: rows.tag,
        names.KEYS: rows.keys,
    }
    return {name: column for name, column in columns.items() if column is not None}


def _check_size(body: int, properties: int) -> None:
    if properties > MAX_SENT_PROPERTIES:
        raise InvalidMessage(
            f"the properties take {properties} bytes, at most {MAX_SENT_PROPERTIES} are allowed;"
            " put large values into the body"
        )
    if body + properties > MAX_MESSAGE:
        raise InvalidMessage(
            f"body and properties take {body + properties} bytes, at most {MAX_MESSAGE} can be sent"
        )


# --- whether the rows of each key come in their order ---------------------------------------------
# Rows of several keys may alternate in any way. What is remembered is one number for each key of
# the partition.


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fall:
    """A row that comes too late.

    Attributes:
        row: in the rows given.
        before: the number of the row of its key before it.
        number: its own, not above `before`.
    """

    row: int
    before: int
    number: int


class KeyOrder:
    """The order of the keys of one partition. Not thread-safe.

    Args:
        unique: whether a key's number may not even repeat.
    """

    def __init__(self, *, unique: bool) -> None:
        self._falls = np.less_equal if unique else np.less
        self._last: dict[object, int] = {}

    @property
    def keys(self) -> list[object]:
        """All keys seen."""
        return list(self._last)

    def check(self, keys: list[object], codes: Numbers, numbers: Numbers) -> Fall | None:
        """Take in the next rows.

        Args:
            keys: distinct keys; each is that of one row at least.
            codes: of each row, the index of its key in `keys`.
            numbers: of each row, its place in order.

        Returns:
            The first row that falls behind an earlier one of its key; None if no row does.
        """
        by_key = np.argsort(codes, kind="stable")
        numbers = numbers[by_key]
        begins = np.flatnonzero(np.diff(codes[by_key], prepend=-1))
        known = [self._last.get(key) for key in keys]
        before = np.concatenate((numbers[:1], numbers[:-1]))
        before[begins] = [0 if number is None else number for number in known]
        has_before = np.ones(len(numbers), bool)
        has_before[begins] = [number is not None for number in known]
        wrong = np.flatnonzero(self._falls(numbers, before) & has_before)
        if wrong.size:
            at = wrong[np.argmin(by_key[wrong])]
            return Fall(int(by_key[at]), int(before[at]), int(numbers[at]))
        self._last.update(zip(keys, numbers[np.append(begins[1:], 0) - 1].tolist(), strict=True))
        return None


# --- whether each key's rows were in one partition ------------------------------------------------
# A task sees its own rows only, and Spark has no way for a writer to bring a key's rows together.
# Tasks run side by side, so a key in two of them has no order. This is found out once all tasks
# are done: each task hands over which keys it had, as hashes; of many keys the smallest hashes, so
# that tasks choose alike: two that share a share of their keys share that share of their samples.


KEY_SAMPLE = 16384  # hashes of a task, 128 KiB: for that many keys it is not a sample but all
_HASH_BYTES = 8

KeySample = npt.NDArray[np.uint64]


def key_sample(keys: Iterable[object]) -> KeySample:
    """Hashes of a task's keys: of all, or of SAMPLE of them.

    Args:
        keys: distinct strings or integers; None means all rows in one order.
    """
    digests = b"".join([blake2b(_key_bytes(key), digest_size=_HASH_BYTES).digest() for key in keys])
    return np.sort(np.frombuffer(digests, np.uint64))[:KEY_SAMPLE]


def scattered(samples: Sequence[KeySample]) -> int:
    """How many of the sampled keys were in more than one task; 0: none was seen to be."""
    if not samples:
        return 0
    _, tasks = np.unique(np.concatenate(samples), return_counts=True)
    return int(np.count_nonzero(tasks > 1))


def _key_bytes(key: object) -> bytes:
    return str(key).encode()


# --- the encoder ----------------------------------------------------------------------------------


_COUNTER_DIGITS = 4


class Encoder:
    """Encodes the rows of one partition. One thread at a time.

    Args:
        plan: of the write.
        partition: its number.
        queues: how many the topic has.
        ids: makes UNIQ_KEYs.
    """

    def __init__(self, plan: WritePlan, partition: int, queues: int, ids: MessageIds) -> None:
        self._plan = plan
        self._partition = partition
        self._queues = queues
        self._ids = ids
        self._order = KeyOrder(unique=plan.roles.id is None)
        self._keyed = plan.selector in KEYED
        self.rows = 0

    @property
    def keys(self) -> list[object]:
        """The keys seen so far; where all rows are in one order, a single one for all."""
        return self._order.keys

    def encode(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """Encode the partition's next rows.

        Raises:
            InvalidMessage: a row that cannot be sent, or comes behind a later one of its key.
        """
        for chunk in chunks(batch):
            rows = read_rows(chunk, self._plan.roles, self._partition, self.rows)
            yield from self._encode(rows)
            self.rows += len(rows)

    def _encode(self, rows: Rows) -> Iterator[Piece]:
        unique = unique_keys(self._ids.next()[:-_COUNTER_DIGITS], self.rows, len(rows))
        texts = property_texts(rows, recognition_ids(rows), unique)
        check_rows(rows, texts, self._plan.topic, key_needed=self._keyed)
        where = self._places(rows)
        return pieces(
            batch_members(rows.body, texts), where, self._queues, self._plan.max_batch_bytes
        )

    def _places(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The place of each row's queue, once the order of the keys was found to be right."""
        if self._plan.selector == ROUND_ROBIN:
            return places(round_robin(len(rows), self.rows), self._queues)
        if not self._keyed:
            here = np.zeros(len(rows), np.int64)
            self._check_order(rows, [None], here)
            return here
        assert rows.key is not None
        encoded = rows.key.dictionary_encode()
        codes = np.asarray(encoded.indices, np.int64)
        distinct = encoded.dictionary
        self._check_order(rows, distinct.to_numpy(zero_copy_only=False).tolist(), codes)
        numbers = NUMBERS[self._plan.selector](distinct)
        return PLACES[self._plan.selector](numbers, self._queues)[codes]

    def _check_order(self, rows: Rows, keys: list[object], codes: npt.NDArray[np.int64]) -> None:
        assert rows.order is not None
        fall = self._order.check(keys, codes, rows.order)
        if fall is not None:
            key = keys[codes[fall.row]]
            raise InvalidMessage(f"{rows.where(fall.row)}: {_what_fell(fall, key, self._plan)}")


def _what_fell(fall: Fall, key: object, plan: WritePlan) -> str:
    keyed, order = plan.selector in KEYED, plan.roles.order
    if fall.number == fall.before:
        return (
            f"{f'key {key!r} has' if keyed else 'the rows have'} {order} {fall.number} twice."
            f" Without an idColumn a message is recognised by its key, {order} and body: name a"
            " column that is unique, or order by something that does not repeat within a key"
        )
    return (
        f"{f'key {key!r} goes' if keyed else 'the rows go'} back from {order} {fall.before} to"
        f" {fall.number}: let orderly.spark.sink.write_ordered do the writing, or repartition by"
        f" the key and sort within partitions by {order}"
    )
