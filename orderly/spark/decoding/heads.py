"""Where stored messages begin and what their fixed heads say, for a whole block at once.

Only plain messages are looked into: version 1, IPv4 hosts, not a batch of others, all sizes in
agreement. Whatever else there is, broken ones included, is left to the loop, which knows it all.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orderly.protocol.stored_message import MAGIC_V1, SysFlag

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
    """The starts as the magic number tells them; None unless the sizes tell the same."""
    found = np.flatnonzero(np.frombuffer(data, np.uint8) == _FIRST_OF_MAGIC) - _MAGIC_AT
    first, last = np.searchsorted(found, [0, len(data) - _SMALLEST + 1])
    heads = anywhere(data, [("size", ">i4"), ("magic", ">u4")])[found[first:last]]
    is_magic = heads["magic"] == MAGIC_V1
    starts, sizes = found[first:last][is_magic], heads["size"][is_magic]
    nexts = np.append(starts, len(data))
    agreed = nexts[0] == 0 and bool((nexts[:-1] + sizes == nexts[1:]).all())
    return starts if agreed else None


def _walk(data: bytes) -> Ints | None:
    """The starts as the sizes tell them, one after the other."""
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
class Plain:
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

    def only(self, rows: Ints | Mask) -> Plain:
        """Some of them."""
        return Plain(
            self.data,
            self.heads[rows],
            self.body_at[rows],
            self.body_end[rows],
            self.properties_at[rows],
            self.properties_end[rows],
        )

    def intact(self) -> Mask:
        """Which bodies have their checksum."""
        data, crc32 = self.data, zlib.crc32
        slices = zip(self.body_at.tolist(), self.body_end.tolist(), strict=True)
        sums = np.array([crc32(data[start:end]) for start, end in slices], np.uint32)
        intact: Mask = sums & 0x7FFFFFFF == self.heads["checksum"]
        return intact


def plain_messages(data: bytes, starts: Ints) -> tuple[Plain, Ints]:
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
    found = Plain(data, heads, body_at, body_end, properties_at, properties_end)
    rows = np.flatnonzero(plain)
    return (found if len(rows) == len(starts) else found.only(rows)), rows
