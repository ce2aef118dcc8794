"""Interleaved rounds, and what they come to: medians with ranges, and ratios within each round."""

import statistics
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """What one part of a benchmark measured.

    Attributes:
        name: short, for JSON.
        title: what the handler does, and on what.
        unit: of the values.
        values: side -> one value a round.
        ratios: name -> (side, the side it is divided by).
    """

    name: str
    title: str
    unit: str
    values: dict
    ratios: dict

    def sides(self):
        """Side -> median, min and max."""
        return {side: spread(values) for side, values in self.values.items()}

    def ratio_spreads(self):
        """Ratio -> median, min and max of the ratios within each round."""
        return {
            name: spread(a / b for a, b in zip(self.values[x], self.values[y], strict=True))
            for name, (x, y) in self.ratios.items()
        }


def spread(values):
    """Median and range."""
    values = list(values)
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def turns(sides, rounds):
    """(round from 1 on, side), every side once a round, backwards in every second one.

    So drift hits all alike.
    """
    for number in range(rounds):
        for side in list(sides) if number % 2 == 0 else reversed(list(sides)):
            yield number + 1, side


def interleaved(part, sides, rounds):
    """Run every side once a round, see `turns`.

    Args:
        part: its name, for the progress on the standard error.
        sides: name -> function that measures once.
    """
    values = {name: [] for name in sides}
    for number, name in turns(sides, rounds):
        values[name].append(sides[name]())
        progress(f"{part}, round {number}, {name}: {values[name][-1]:,.2f}")
    return values


def progress(text):
    """Say on the standard error how far the run is."""
    print(text, file=sys.stderr, flush=True)
