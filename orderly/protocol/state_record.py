"""Records of a state topic: what the owner of a queue leaves to the next one.

A record is one readable line: `orderly-state VERSION KIND CHECKSUM JSON`. The checksum (CRC-32 in
hex) covers kind and JSON. Which records count, and when one is written, is `ordering`'s business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any
from zlib import crc32

from orderly.errors import ProtocolError
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    as_int,
    bool_in,
    int_in,
    list_in,
    load_object,
    text_in,
    texts_in,
)

VERSION = 1
MAX_RECORD = 256 * 1024  # bytes
RUNS_A_RECORD = 6000  # two numbers of at most 20 characters and a comma each: they always fit
MAX_CHUNKS = 256
MAX_RUNS = RUNS_A_RECORD * MAX_CHUNKS

_LINE = re.compile(rb"orderly-state ([0-9]{1,6}) (?:([a-z]{1,16}) ([0-9a-f]{8}) )?", re.ASCII)
_END = 1 << 63  # offsets are below it


@dataclass(frozen=True, slots=True)
class Acquire:
    """Somebody is about to take the queue. Its queue offset is the new owner's token."""

    owner: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """The owner got the lock after its Acquire, at queue offset `token`. Fences lower tokens."""

    owner: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What an owner has finished: a change since its last entry, or a part of everything.

    Attributes:
        owner: client id.
        token: queue offset of the owner's Acquire.
        number: counts the owner's attempts to write an entry.
        previous: queue offset of the owner's confirm or of that entry of its own, known to be
            stored, which this one follows.
        epoch: how many times the queue was taken over.
        low: everything below is finished; committed after this entry was stored.
        previous_low: the committed offset before.
        runs: finished above `low`, half-open; of a change, only the new ones.
        closed: the owner gave the queue back.
        chunk, chunks: which part of everything; chunks 0 is a change.
        parked: keys that wait in the park topic.
    """

    owner: str
    token: int
    number: int
    previous: int
    epoch: int
    low: int
    previous_low: int
    runs: tuple[tuple[int, int], ...]
    closed: bool = False
    chunk: int = 0
    chunks: int = 0
    parked: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether, with what it builds on, it says everything: not a part that others follow."""
        return self.chunks == 0 or self.chunk == self.chunks - 1


@dataclass(frozen=True, slots=True)
class Unknown:
    """A record of a release with another format."""

    version: int


Record = Acquire | Confirm | Entry | Unknown


def encode_record(record: Acquire | Confirm | Entry) -> bytes:
    """Write a record.

    Raises:
        ProtocolError: over 256 KiB: more runs than RUNS_A_RECORD, or long names.
    """
    kind = _KINDS[type(record)]
    content = dumps(_WRITERS[kind](record))
    line = b"orderly-state %d %s %08x " % (VERSION, kind, crc32(kind + content))
    if len(line) + len(content) > MAX_RECORD:
        raise ProtocolError(f"a state record of {len(content)} bytes; at most {MAX_RECORD} fit")
    return line + content


def decode_record(body: bytes) -> Record:
    """Read a record; one of another version becomes Unknown.

    Raises:
        ProtocolError: not a state record, or a damaged one.
    """
    line = _LINE.match(body)
    if line is None:
        raise ProtocolError(f"not a state record: {body[:40]!r}")
    version, kind, checksum = line.groups()
    if int(version) != VERSION:
        return Unknown(int(version))
    if kind not in _READERS or len(body) > MAX_RECORD:
        raise ProtocolError(f"a state record of kind {kind!r} with {len(body)} bytes")
    content = body[line.end() :]
    if crc32(kind + content) != int(checksum, 16):
        raise ProtocolError(f"a damaged state record: its checksum is not {checksum.decode()}")
    record: Record = _READERS[kind](load_object(content))
    return record


def record_kind(body: bytes) -> str:
    """The kind of an encoded record, for people who look at the topic: "entry", say."""
    line = _LINE.match(body)
    return ((line and line[2]) or b"unknown").decode()


def _acquire_fields(record: Acquire) -> dict[str, Any]:
    return {"owner": record.owner}


def _read_acquire(fields: dict[str, Any]) -> Acquire:
    return Acquire(text_in(fields, "owner"))


def _confirm_fields(record: Confirm) -> dict[str, Any]:
    return {"owner": record.owner, "token": record.token}


def _read_confirm(fields: dict[str, Any]) -> Confirm:
    return Confirm(text_in(fields, "owner"), _natural(fields, "token"))


def _entry_fields(record: Entry) -> dict[str, Any]:
    fields = {
        "owner": record.owner,
        "token": record.token,
        "number": record.number,
        "previous": record.previous,
        "epoch": record.epoch,
        "low": record.low,
        "previousLow": record.previous_low,
        "closed": record.closed,
        "chunk": record.chunk,
        "chunks": record.chunks,
        "runs": _steps(record.low, record.runs),
    }
    return fields | ({"parked": list(record.parked)} if record.parked else {})


def _read_entry(fields: dict[str, Any]) -> Entry:
    low = _natural(fields, "low")
    entry = Entry(
        owner=text_in(fields, "owner"),
        token=_natural(fields, "token"),
        number=_natural(fields, "number"),
        previous=_natural(fields, "previous"),
        epoch=_natural(fields, "epoch"),
        low=low,
        previous_low=_natural(fields, "previousLow"),
        runs=_runs_from(low, list_in(fields, "runs")),
        closed=bool_in(fields, "closed"),
        chunk=_natural(fields, "chunk"),
        chunks=_natural(fields, "chunks"),
        parked=texts_in(fields, "parked"),
    )
    if entry.chunks > MAX_CHUNKS or entry.chunk >= max(entry.chunks, 1):
        raise ProtocolError(f"chunk {entry.chunk} of {entry.chunks} of a state")
    return entry


def _steps(low: int, runs: tuple[tuple[int, int], ...]) -> list[int]:
    """Write runs as distances: from `low` to the first, its length, to the next, and so on."""
    return [end - start for start, end in pairwise((low, *chain.from_iterable(runs)))]


def _runs_from(low: int, steps: list[Any]) -> tuple[tuple[int, int], ...]:
    edges, at = [], low
    for place, step in enumerate(steps):
        at += as_int(step, "a step of 'runs'")
        if step < (place > 0) or at >= _END:  # only the first run may begin where counting does
            raise ProtocolError(f"step {place} of a state's runs is {step}")
        edges.append(at)
    if len(edges) % 2:
        raise ProtocolError("a state's last run has no end")
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def _natural(fields: dict[str, Any], name: str) -> int:
    value = int_in(fields, name)
    if value < 0:
        raise ProtocolError(f"{name!r} of a state record is {value}")
    return value


_KINDS: dict[type, bytes] = {Acquire: b"acquire", Confirm: b"confirm", Entry: b"entry"}
_WRITERS: dict[bytes, Any] = {
    b"acquire": _acquire_fields,
    b"confirm": _confirm_fields,
    b"entry": _entry_fields,
}
_READERS: dict[bytes, Any] = {
    b"acquire": _read_acquire,
    b"confirm": _read_confirm,
    b"entry": _read_entry,
}
