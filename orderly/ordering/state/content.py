"""What an entry says, and how it is cut into records: a change, or everything in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orderly.errors import OrderlyError
from orderly.ordering.crashes.crashes import NO_CRASHES, Crashes
from orderly.ordering.parking.keys import NOTHING_KEPT, Kept, Key, ParkedKey
from orderly.ordering.state.runs import Runs, above, difference, union
from orderly.protocol.java_json import dumps
from orderly.protocol.parked_key import parked_to_json
from orderly.protocol.state_record import PARKED_CHUNKS, RUN_BYTES, RUNS_A_RECORD

_ROOM = RUNS_A_RECORD * RUN_BYTES  # bytes of a record that runs and parked keys may take


@dataclass(frozen=True, slots=True)
class Remembered:
    """The content of the newest entry."""

    low: int = 0
    previous_low: int = 0
    runs: Runs = ()
    kept: Kept = NOTHING_KEPT
    crashes: Crashes = NO_CRASHES


@dataclass(frozen=True, slots=True)
class Part:
    """What one record says; see `Entry`."""

    runs: Runs = ()
    parked: tuple[ParkedKey, ...] = ()
    released: tuple[Key, ...] = ()


def change(last: Remembered, content: Remembered) -> Part | None:
    """Return what `content` says that `last` did not; None: a change cannot say it, or is no less.

    Args:
        last: what is on record.
        content: what is to be.
    """
    if content.low < last.low:
        return None
    new = difference(content.runs, last.runs)
    if union(above(last.runs, content.low), new) != content.runs:
        return None
    before = {each.key: each for each in last.kept.parked}
    parked = tuple(each for each in content.kept.parked if before.get(each.key) != each)
    left = {each.key for each in content.kept.parked}
    released = tuple(key for key in before if key not in left)
    part = Part(new, parked, released)
    size = _size(part)
    return part if size <= _ROOM and _takes_more(content, size) else None


def everything(content: Remembered) -> list[Part]:
    """Cut all of `content` into what one record takes; nothing is one part, too.

    Raises:
        OrderlyError: there are too many parked keys. None may be left out, so nothing is written.
    """
    parts = [Part(parked=parked) for parked in _cut(content.kept.parked)]
    if len(parts) > PARKED_CHUNKS:
        raise OrderlyError(
            f"{len(content.kept.parked)} parked keys do not fit into a state: release some"
        )
    runs = content.runs
    parts += [Part(runs[at : at + RUNS_A_RECORD]) for at in range(0, len(runs), RUNS_A_RECORD)]
    return parts or [Part()]


def _cut(parked: tuple[ParkedKey, ...]) -> Iterator[tuple[ParkedKey, ...]]:
    """Cut parked keys into what one record takes."""
    begun, size = 0, 0
    for place, each in enumerate(parked):
        more = _bytes(each)
        if size + more > _ROOM:
            yield parked[begun:place]
            begun, size = place, 0
        size += more
    if parked:
        yield parked[begun:]


def _size(part: Part) -> int:
    """Bytes that a part takes in its record, at most."""
    keys = sum(map(_bytes, part.parked)) + sum(len(dumps(key)) + 1 for key in part.released)
    return len(part.runs) * RUN_BYTES + keys


def _takes_more(content: Remembered, size: int) -> bool:
    """Whether all of `content` takes more bytes; counts no further than it takes to know."""
    left = size - len(content.runs) * RUN_BYTES
    for each in content.kept.parked:
        if left < 0:
            break
        left -= _bytes(each)
    return left < 0


def _bytes(parked: ParkedKey) -> int:
    return len(dumps([*parked_to_json(parked), parked.generation, parked.counted_to])) + 1
