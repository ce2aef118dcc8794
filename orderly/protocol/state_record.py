"""Records of a state topic: what the owner of a queue leaves to the next one.

A record is one readable line (see `records`). Which records count, and when one is written, is
`ordering`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from orderly.errors import ProtocolError
from orderly.protocol.java_json import (
    as_int,
    bool_in,
    list_in,
    natural_in,
    natural_or_none,
    text_in,
)
from orderly.protocol.parked_key import Key, ParkedKey, as_key, parked_from_json, parked_to_json
from orderly.protocol.records import Kind, LineFormat, Unknown

__all__ = [
    "Acquire",
    "Confirm",
    "Entry",
    "Record",
    "Trying",
    "Unknown",
    "decode_record",
    "encode_record",
    "record_kind",
]

VERSION = 1
MAX_RECORD = 256 * 1024  # bytes
RUN_BYTES = 42  # two numbers of at most 20 characters and a comma each
RUNS_A_RECORD = 5000  # they always fit, and so do the suspects
MAX_CHUNKS = 256
PARKED_CHUNKS = 56  # of them may hold parked keys: 10 000 of the longest
MAX_RUNS = RUNS_A_RECORD * (MAX_CHUNKS - PARKED_CHUNKS)
MAX_SUSPECTS = 1000
TOKEN_EPOCH = 1_577_836_800_000  # 2020; a fencing token counts the milliseconds from here
MAX_TOKEN_TIME = TOKEN_EPOCH + (1 << 41) - 1  # in 2089; with 22 bits behind it a token has 63
MAX_WINDOW = 512  # commits in 15 s, of which a record can tell

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
        parked: keys that wait in the park topic; of a change, those that are new or changed.
        released: keys that no longer do; only of a change.
        commands: position in the park queue up to which its commands are settled.
        deaths: how many owners ended without closing since `low` last moved.
        suspects: (offset, how many owners ended while it was handled).
        trying: the suspect that was being handled when this was written; see `Trying`.
        window: committed offsets that a killed broker may come back with, newest last: what was
            sent within 15 s before the last acknowledged commit.
        landmark: (offset, store time in milliseconds) of a message that the source queue had when
            the owner took it; None: it had none.
        generation: of the source topic, counted from 0 each time it was made anew.
        token_time: the first part of the owner's fencing token: when its confirm was stored
            (milliseconds since the epoch), or the highest of former owners; 0: not known.

    Releases before `window` pass the last four over, and leave them out of what they write: their
    heirs know no more than they did.
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
    parked: tuple[ParkedKey, ...] = ()
    released: tuple[Key, ...] = ()
    commands: int = 0
    deaths: int = 0
    suspects: tuple[tuple[int, int], ...] = ()
    trying: int | None = None
    window: tuple[int, ...] = ()
    landmark: tuple[int, int] | None = None
    generation: int = 0
    token_time: int = 0

    @property
    def complete(self) -> bool:
        """Whether, with what it builds on, it says everything: not a part that others follow."""
        return self.chunks == 0 or self.chunk == self.chunks - 1


@dataclass(frozen=True, slots=True)
class Trying:
    """The owner with this token is about to handle `offset`, which may be what ends the process.

    None: the handler came back from what was tried last, whatever it answered. It changes nothing
    else: which entries count does not depend on it.
    """

    owner: str
    token: int
    offset: int | None


Record = Acquire | Confirm | Entry | Trying | Unknown


def encode_record(record: Acquire | Confirm | Entry | Trying) -> bytes:
    """Write a record.

    Raises:
        ProtocolError: over 256 KiB: more than RUNS_A_RECORD takes, or long names.
    """
    return _FORMAT.encode(record)


def decode_record(body: bytes) -> Record:
    """Read a record; one of another version becomes Unknown.

    Raises:
        ProtocolError: not a state record, or a damaged one.
    """
    record: Record = _FORMAT.decode(body)
    return record


def record_kind(body: bytes) -> str:
    """The kind of an encoded record, for people who look at the topic: "entry", say."""
    return _FORMAT.kind(body)


def _acquire_fields(record: Acquire) -> dict[str, Any]:
    return {"owner": record.owner}


def _read_acquire(fields: dict[str, Any]) -> Acquire:
    return Acquire(text_in(fields, "owner"))


def _confirm_fields(record: Confirm) -> dict[str, Any]:
    return {"owner": record.owner, "token": record.token}


def _read_confirm(fields: dict[str, Any]) -> Confirm:
    return Confirm(text_in(fields, "owner"), natural_in(fields, "token"))


def _trying_fields(record: Trying) -> dict[str, Any]:
    return {"owner": record.owner, "token": record.token, **_known("offset", record.offset)}


def _read_trying(fields: dict[str, Any]) -> Trying:
    offset = natural_or_none(fields, "offset")
    return Trying(text_in(fields, "owner"), natural_in(fields, "token"), offset)


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
    seldom = {
        "parked": list(map(parked_to_json, record.parked)),
        "released": list(record.released),
        "commands": record.commands,
        "deaths": record.deaths,
        "suspects": list(map(list, record.suspects)),
        "window": _back_from(record.low, record.window),
        "landmark": list(record.landmark or ()),
        "generation": record.generation,
        "tokenTime": record.token_time,
        "parkedIn": _generations(record),
        "parkedTo": _counted(record),
    }
    fields |= {name: value for name, value in seldom.items() if value}
    return fields | _known("trying", record.trying)


def _read_entry(fields: dict[str, Any]) -> Entry:
    low = natural_in(fields, "low")
    generation = natural_in(fields, "generation", 0)
    parked = tuple(map(parked_from_json, list_in(fields, "parked")))
    parked = _with_generations(parked, list_in(fields, "parkedIn"), generation)
    entry = Entry(
        owner=text_in(fields, "owner"),
        token=natural_in(fields, "token"),
        number=natural_in(fields, "number"),
        previous=natural_in(fields, "previous"),
        epoch=natural_in(fields, "epoch"),
        low=low,
        previous_low=natural_in(fields, "previousLow"),
        runs=_runs_from(low, list_in(fields, "runs")),
        closed=bool_in(fields, "closed"),
        chunk=natural_in(fields, "chunk"),
        chunks=natural_in(fields, "chunks"),
        parked=_with_counted(parked, list_in(fields, "parkedTo")),
        released=tuple(map(as_key, list_in(fields, "released"))),
        commands=natural_in(fields, "commands", 0),
        deaths=natural_in(fields, "deaths", 0),
        suspects=_suspects_from(list_in(fields, "suspects")),
        trying=natural_or_none(fields, "trying"),
        window=_window_from(low, list_in(fields, "window")),
        landmark=_landmark_from(list_in(fields, "landmark")),
        generation=generation,
        token_time=natural_in(fields, "tokenTime", 0),
    )
    if entry.token_time > MAX_TOKEN_TIME:  # forged: tokens that programs store would not fit
        raise ProtocolError(f"a token of the time {entry.token_time}")
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


def _suspects_from(pairs: list[Any]) -> tuple[tuple[int, int], ...]:
    if len(pairs) > MAX_SUSPECTS:
        raise ProtocolError(
            f"{len(pairs)} suspects of a state; at most {MAX_SUSPECTS} are possible"
        )
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ProtocolError(f"not a suspect: {pair!r:.80}")
        if min(as_int(number, "a number of a suspect") for number in pair) < 0:
            raise ProtocolError(f"a suspect with a number below 0: {pair!r:.80}")
    return tuple((offset, deaths) for offset, deaths in pairs)


def _back_from(low: int, window: tuple[int, ...]) -> list[int]:
    """Write offsets as distances below `low`: small numbers, below 0 where it was set back."""
    return [low - offset for offset in window]


def _window_from(low: int, steps: list[Any]) -> tuple[int, ...]:
    if len(steps) > MAX_WINDOW:
        raise ProtocolError(f"{len(steps)} offsets in a state's window; at most {MAX_WINDOW} fit")
    window = tuple(low - as_int(step, "a step of 'window'") for step in steps)
    if any(not 0 <= offset < _END for offset in window):
        raise ProtocolError("a state's window has an offset that is none")
    return window


def _landmark_from(pair: list[Any]) -> tuple[int, int] | None:
    if not pair:
        return None
    numbers = [as_int(number, "a number of 'landmark'") for number in pair]
    if len(numbers) != 2 or min(numbers) < 0:
        raise ProtocolError(f"not a landmark: {pair!r:.80}")
    return numbers[0], numbers[1]


def _generations(entry: Entry) -> list[int]:
    """Of each parked key the generation its messages are of; nothing, if it is the entry's."""
    generations = [parked.generation for parked in entry.parked]
    return generations if any(each != entry.generation for each in generations) else []


def _with_generations(
    parked: tuple[ParkedKey, ...], generations: list[Any], present: int
) -> tuple[ParkedKey, ...]:
    told = [as_int(each, "a number of 'parkedIn'") for each in generations]
    if told and (len(told) != len(parked) or min(told) < 0):
        raise ProtocolError(f"not generations of {len(parked)} parked keys: {generations!r:.80}")
    return tuple(
        replace(each, generation=generation)
        for each, generation in zip(parked, told or [present] * len(parked), strict=True)
    )


def _counted(entry: Entry) -> list[int]:
    """Up to where each parked key's messages are counted; nothing, if that is not known of any."""
    counted = [parked.counted_to for parked in entry.parked]
    return counted if any(counted) else []


def _with_counted(parked: tuple[ParkedKey, ...], counted: list[Any]) -> tuple[ParkedKey, ...]:
    told = [as_int(each, "a number of 'parkedTo'") for each in counted]
    if not told:
        return parked
    if len(told) != len(parked) or min(told) < 0:
        raise ProtocolError(f"not what {len(parked)} parked keys count to: {counted!r:.80}")
    return tuple(replace(each, counted_to=to) for each, to in zip(parked, told, strict=True))


def _known(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}


_FORMAT = LineFormat(
    "orderly-state",
    VERSION,
    MAX_RECORD,
    (
        Kind("acquire", Acquire, _acquire_fields, _read_acquire),
        Kind("confirm", Confirm, _confirm_fields, _read_confirm),
        Kind("entry", Entry, _entry_fields, _read_entry),
        Kind("trying", Trying, _trying_fields, _read_trying),
    ),
)
