"""How long to wait after failures that follow one another: twice as long each time, spread."""

from __future__ import annotations

from orderly.config.numbers import MIN_SUSPEND

_DOUBLINGS = 1000  # beyond, a float would overflow; every wait is at its longest long before


def doubled(failures: int, first: float, longest: float) -> float:
    """Return `first` seconds for the first failure, twice as much for each further one.

    Args:
        failures: in a row, this one included.
        first: seconds.
        longest: seconds at which the doubling ends.
    """
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    return min(first * 2.0**doublings, longest)


def backoff(failures: int, first: float, longest: float, draw: float) -> float:
    """Return the seconds to wait: the upper half of `doubled`, spread by `draw`.

    What failed together, because one thing was down, does not come again together.

    Args:
        failures: in a row, this one included.
        first: seconds the first wait takes at most.
        longest: seconds no wait exceeds, 0.01 or more.
        draw: by chance, from 0 to below 1.
    """
    full = doubled(failures, first, longest)
    return max(full * (0.5 + draw / 2), MIN_SUSPEND)
