"""Records of a state topic: what the owner of a queue leaves to the next one.

A record is a message whose body is one readable line, and whose tag is the record's kind:

    orderly-state 1 acquire 12c2a9df {"owner":"10.0.0.7@41#5f3a"}

`record_format` writes and reads the line. Which records count, and when one is written, is
decided in `ordering/state_records`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Annotated, Any, NamedTuple

from orderly.errors import ProtocolError
from orderly.protocol.body import (
    INT,
    LIST,
    NATURAL,
    JsonKind,
    Natural,
    as_object,
    body_of,
    from_json,
    known,
    list_of,
    to_json,
)
from orderly.protocol.ext import wire
from orderly.protocol.parked_key import PARKED_KEY, ParkedKey, WrittenKey
from orderly.protocol.record_format import Kind, LineFormat, Unknown

__all__ = [
    "Acquire",
    "Confirm",
    "Entry",
    "Record",
    "SentAgain",
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
MAX_WINDOW = 512  # commits in 15 s, that fit into a record
MAX_SENT_AGAIN = 128  # of 55 bytes each, beside the runs

_END = 1 << 63  # offsets are below it


class SentAgain(NamedTuple):
    """A marked message, by which a late copy of it is known (`ordering.repeats`).

    Attributes:
        offset: where it stands.
        identity: 63 bits of its id, born time, and its body's length and checksum.
        checksum: of its body; quick to compare.
        stored_at: seconds since the epoch.
    """

    offset: int
    identity: int
    checksum: int
    stored_at: int


@dataclass(frozen=True, slots=True)
class Acquire:
    """Somebody is about to take the queue. Its queue offset is the new owner's token."""

    owner: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """The owner got the lock after its Acquire, at queue offset `token`. Fences lower tokens."""

    owner: str
    token: Natural


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
        generation: of the source topic: how often it was recreated, from 0.
        token_time: the first part of the owner's fencing token: when its confirm was stored
            (milliseconds since the epoch), or the highest of former owners; 0: not known.
        sent_again: marked messages that are finished, the newest ones.

    Releases before `window` pass the last five over, and leave them out of what they write: their
    heirs know no more than they did. So do later ones with `sent_again`.
    """

    owner: str
    token: Natural
    number: Natural
    previous: Natural
    epoch: Natural
    low: Natural
    previous_low: Natural
    closed: bool = False
    chunk: Natural = wire("chunk", demanded=True, default=0)
    chunks: Natural = wire("chunks", demanded=True, default=0)
    runs: Annotated[tuple[tuple[int, int], ...], _OWN]
    parked: Annotated[tuple[ParkedKey, ...], _PARKED_KEYS] = ()
    released: tuple[WrittenKey, ...] = ()
    commands: Natural = 0
    deaths: Natural = 0
    suspects: Annotated[tuple[tuple[int, int], ...], _SUSPECTS] = ()
    window: Annotated[tuple[int, ...], _OWN] = ()
    landmark: Annotated[tuple[int, int] | None, _LANDMARK] = None
    generation: Natural = 0
    token_time: Natural = 0
    sent_again: Annotated[tuple[SentAgain, ...], _OWN] = ()
    trying: Natural | None = None

    @property
    def complete(self) -> bool:
        """Whether, with what it builds on, it says everything: not a part that others follow."""
        return self.chunks == 0 or self.chunk == self.chunks - 1


@dataclass(frozen=True, slots=True)
class Trying:
    """The owner with this token is about to handle `offset`, which may be what ends the process.

    None: the handler came back from what was tried last, with any answer. It changes nothing
    else: which entries count does not depend on it.
    """

    owner: str
    token: Natural
    offset: Natural | None


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


# Fields that an entry has even where they say nothing.
_ALWAYS = {
    "owner", "token", "number", "previous", "epoch", "low", "previousLow", "closed", "chunk",
    "chunks", "runs",
}  # fmt: skip


def _entry_fields(record: Entry) -> dict[str, Any]:
    fields = to_json(record)
    trying = known({"trying": fields.pop("trying")})
    fields |= {
        "runs": _steps(record.low, record.runs),
        "window": _back_from(record.low, record.window),
        "sentAgain": _marks(record),
        "parkedIn": _generations(record),
        "parkedTo": _counted(record),
    }
    return {name: value for name, value in fields.items() if value or name in _ALWAYS} | trying


def _read_entry(value: Any, what: str) -> Entry:
    fields = as_object(value, what)
    low = NATURAL.at(fields, "low")
    generation = NATURAL.at(fields, "generation", 0)
    parked = _PARKED_KEYS.at(fields, "parked")
    parked = _with_generations(parked, _NATURALS.at(fields, "parkedIn"), generation)
    entry = from_json(
        Entry,
        fields,
        runs=_runs_from(low, _INTS.at(fields, "runs")),
        window=_window_from(low, _INTS.at(fields, "window")),
        sent_again=_marks_from(low, _INTS.at(fields, "sentAgain")),
        parked=_with_counted(parked, _NATURALS.at(fields, "parkedTo")),
    )
    if entry.token_time > MAX_TOKEN_TIME:  # forged: tokens that programs store would not fit
        raise ProtocolError(f"a token of the time {entry.token_time}")
    if entry.chunks > MAX_CHUNKS or entry.chunk >= max(entry.chunks, 1):
        raise ProtocolError(f"chunk {entry.chunk} of {entry.chunks} of a state")
    return entry


def _steps(low: int, runs: tuple[tuple[int, int], ...]) -> list[int]:
    """Write runs as distances: from `low` to the first, its length, to the next, and so on."""
    return [end - start for start, end in pairwise((low, *chain.from_iterable(runs)))]


def _runs_from(low: int, steps: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    edges, at = [], low
    for place, step in enumerate(steps):
        at += step
        if step < (place > 0) or at >= _END:  # only the first run may begin where counting does
            raise ProtocolError(f"step {place} of a state's runs is {step}")
        edges.append(at)
    if len(edges) % 2:
        raise ProtocolError("a state's last run has no end")
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def _suspects_from(value: Any, what: str) -> tuple[tuple[int, int], ...]:
    pairs = LIST.read(value, what)
    if len(pairs) > MAX_SUSPECTS:
        raise ProtocolError(
            f"{len(pairs)} suspects of a state; at most {MAX_SUSPECTS} are possible"
        )
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ProtocolError(f"not a suspect: {pair!r:.80}")
    return tuple(
        (NATURAL.read(offset, "a suspect's offset"), NATURAL.read(deaths, "a suspect's deaths"))
        for offset, deaths in pairs
    )


def _back_from(low: int, window: tuple[int, ...]) -> list[int]:
    """Write offsets as distances below `low`: small numbers, below 0 where it was set back."""
    return [low - offset for offset in window]


def _window_from(low: int, steps: tuple[int, ...]) -> tuple[int, ...]:
    if len(steps) > MAX_WINDOW:
        raise ProtocolError(f"{len(steps)} offsets in a state's window; at most {MAX_WINDOW} fit")
    window = tuple(low - step for step in steps)
    if any(not 0 <= offset < _END for offset in window):
        raise ProtocolError("a state's window has a value that is not an offset")
    return window


def _marks(entry: Entry) -> list[int]:
    """Write marked messages with their offsets as distances from `low`, one after the other."""
    return [n for mark in entry.sent_again for n in (mark.offset - entry.low, *mark[1:])]


def _marks_from(low: int, numbers: tuple[int, ...]) -> tuple[SentAgain, ...]:
    count, left = divmod(len(numbers), 4)
    if left or count > MAX_SENT_AGAIN:
        raise ProtocolError(f"{len(numbers)} numbers are no {MAX_SENT_AGAIN} marked messages")
    marks = tuple(
        SentAgain(low + numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3])
        for at in range(0, len(numbers), 4)
    )
    if any(not 0 <= number < _END for mark in marks for number in mark):
        raise ProtocolError("a marked message of a state has a number that cannot be")
    return marks


def _landmark_from(value: Any, what: str) -> tuple[int, int] | None:
    pair = _NATURALS.read(value, what)
    if len(pair) not in (0, 2):
        raise ProtocolError(f"not a landmark: {pair!r:.80}")
    return (pair[0], pair[1]) if pair else None


def _generations(entry: Entry) -> list[int]:
    """Of each parked key the generation its messages are of; nothing, if it is the entry's."""
    generations = [parked.generation for parked in entry.parked]
    return generations if any(each != entry.generation for each in generations) else []


def _with_generations(
    parked: tuple[ParkedKey, ...], listed: tuple[int, ...], present: int
) -> tuple[ParkedKey, ...]:
    if listed and len(listed) != len(parked):
        raise ProtocolError(f"not generations of {len(parked)} parked keys: {listed!r:.80}")
    return tuple(
        replace(each, generation=generation)
        for each, generation in zip(parked, listed or (present,) * len(parked), strict=True)
    )


def _counted(entry: Entry) -> list[int]:
    """Up to where each parked key's messages are counted; nothing, if that is not known of any."""
    counted = [parked.counted_to for parked in entry.parked]
    return counted if any(counted) else []


def _with_counted(parked: tuple[ParkedKey, ...], listed: tuple[int, ...]) -> tuple[ParkedKey, ...]:
    if not listed:
        return parked
    if len(listed) != len(parked):
        raise ProtocolError(f"not what {len(parked)} parked keys count to: {listed!r:.80}")
    return tuple(replace(each, counted_to=to) for each, to in zip(parked, listed, strict=True))


_OWN = LIST  # read and written with `low`
_INTS = list_of(INT)
_NATURALS = list_of(NATURAL)
_PARKED_KEYS = list_of(PARKED_KEY)
_SUSPECTS = JsonKind(_suspects_from, lambda pairs: list(map(list, pairs)))
_LANDMARK = JsonKind(_landmark_from, lambda pair: list(pair or ()))

_FORMAT = LineFormat(
    "orderly-state",
    VERSION,
    MAX_RECORD,
    (
        Kind("acquire", Acquire, body_of(Acquire)),
        Kind("confirm", Confirm, body_of(Confirm)),
        Kind("entry", Entry, JsonKind(_read_entry, _entry_fields)),
        Kind("trying", Trying, JsonKind(body_of(Trying).read, lambda tried: known(to_json(tried)))),
    ),
)
