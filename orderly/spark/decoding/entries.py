"""Properties of a whole block: the entries `name 0x01 value 0x02` of all its messages at once.

Equal to `decode_properties` of each message: names end at their first 0x01, entries without a
name or a value do not count, and of several with one name the last one's value does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orderly.spark.columns import COLUMNS
from orderly.spark.decoding.heads import Ints, Mask, Plain, anywhere
from orderly.spark.decoding.slices import slices

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
        """The first 0x01 of each entry; its end where there is none."""
        found = np.flatnonzero(self.text == _NAME_END)
        if len(found) == len(self.starts) and bool(
            ((self.starts <= found) & (found < self.ends)).all()
        ):
            return found
        nexts: Ints = np.append(found, len(self.text))[np.searchsorted(found, self.starts)]
        return np.minimum(nexts, self.ends)


def find_entries(messages: Plain) -> Entries:
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
