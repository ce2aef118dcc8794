"""Many cases on one or several processes; each case follows from the seed and its number."""

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.judging import judge
from tests.fuzz.targets import TARGETS, WEIGHTS

_CHUNK = 2000  # cases a process gets at a time
_MEASURED = 16  # of so many cases one has its memory measured
_KEPT = 20  # violations kept of one kind of one target; one defect makes thousands
_DECK = [name for name, weight in WEIGHTS.items() for _ in range(weight)]


@dataclass
class Result:
    """What became of a campaign: cases by target, violations, seconds of real time."""

    cases: Counter = field(default_factory=Counter)
    violations: list = field(default_factory=list)
    seconds: float = 0.0


def run_cases(cases, seed, jobs=1, progress=lambda done, violations: None):
    """Run so many cases; returns a Result."""
    result, began = Result(), time.monotonic()
    chunks = [(seed, at, min(at + _CHUNK, cases)) for at in range(0, cases, _CHUNK)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for counted, violations in pool.imap_unordered(run_chunk, chunks):
            result.cases += counted
            result.violations += violations
            progress(result.cases.total(), len(result.violations))
    result.seconds = time.monotonic() - began
    return result


def run_chunk(chunk):
    """Run the cases of one chunk here: (seed, first, end)."""
    seed, first, end = chunk
    counted, violations, seen = Counter(), [], Counter()
    for number in range(first, end):
        name, data = draw_case(seed, number)
        counted[name] += 1
        violation = judge(name, TARGETS[name], data, measured=number % _MEASURED == 0)
        if violation is not None:
            kind = (name, violation.what[:30])
            seen[kind] += 1
            if seen[kind] <= _KEPT:
                violations.append(violation)
    return counted, violations


def draw_case(seed, number):
    """The target's name and the input of one case."""
    rng = random.Random(seed << 40 | number)
    name = rng.choice(_DECK)
    return name, TARGETS[name].draw(rng)
