"""What is measured: parts, their sides, and the ratios between them."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from benchmarks.peers.launch import Run, SideFailed
from benchmarks.rounds import progress, spread, turns


@dataclass(frozen=True, slots=True)
class Ratio:
    """One side by another, within each round.

    Attributes:
        name: in the JSON.
        side, by: sides of one part.
        of: an attribute of `Run`.
    """

    name: str
    side: str
    by: str
    of: str = "rate"


@dataclass(frozen=True, slots=True)
class Part:
    """Sides that do the same work.

    Attributes:
        name: short, for JSON and `--only`.
        title: what they do.
        columns: attributes of `Run` that are shown.
        ratios: what is compared.
        prepare: makes what the sides share; returns side -> function that measures once.
        rounds: at most so many.
        sizes: of the bodies it is measured with.
        share: of the time of a whole run, beside those of other parts.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    ratios: tuple[Ratio, ...]
    prepare: Callable[..., Mapping[str, Callable[[], Run]]]
    rounds: int = 99
    sizes: tuple[int, ...] = (128, 1024)
    share: float = 1.0


@dataclass(slots=True)
class Measured:
    """A part's runs: side -> round -> Run; and why a side has none, or fewer."""

    part: Part
    size: int
    runs: dict[str, dict[int, Run]]
    missing: dict[str, str] = field(default_factory=dict)

    def spreads(self) -> dict:
        """Side -> column -> median and range."""
        return {
            side: {name: spread(getattr(run, name) for run in rounds.values()) for name in columns}
            for side, rounds in self.runs.items()
            if rounds
            for columns in [self.part.columns]
        }

    def ratios(self) -> dict:
        """Ratio -> median and range within the rounds that both sides finished; None without."""
        return {ratio.name: self._ratio(ratio) for ratio in self.part.ratios}

    def _ratio(self, ratio):
        ones, others = (self.runs.get(side, {}) for side in (ratio.side, ratio.by))
        values = [
            getattr(ones[number], ratio.of) / getattr(others[number], ratio.of)
            for number in ones.keys() & others.keys()
        ]
        return spread(values) if values else None


def deadlines(shares: Sequence[float], begin: float, seconds: float) -> list[float]:
    """When each part is to end, one after the other; what one leaves over, later ones may use."""
    return [begin + seconds * share / sum(shares) for share in accumulate(shares)]


def measure(
    part: Part,
    size: int,
    sides: Mapping[str, Callable[[], Run]],
    rounds: int,
    until: float = math.inf,
) -> Measured:
    """Run the sides in interleaved rounds; one that fails is left out from then on.

    Args:
        part, size: what is measured, and with which bodies.
        sides: name -> function that measures once.
        rounds: how many.
        until: no round but the first begins after this moment of the monotonic clock.
    """
    measured = Measured(part, size, {side: {} for side in sides})
    begun = 0
    for number, side in turns(sides, min(rounds, part.rounds)):
        if number > begun:
            if begun and time.monotonic() > until:
                progress(f"{part.name} of {size} bytes: {begun} rounds, for lack of time")
                break
            begun = number
        if side in measured.missing:
            continue
        told = f"{part.name} of {size} bytes, round {number}, {side}"
        try:
            run = measured.runs[side][number] = sides[side]()
        except SideFailed as error:
            measured.missing[side] = str(error)
            progress(f"{told}: MISSING: {error}")
        else:
            values = ", ".join(f"{name} {getattr(run, name):,.2f}" for name in part.columns)
            progress(f"{told}: {values}")
    return measured
