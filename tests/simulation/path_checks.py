"""How many histories took each path, and whether a defect shows there and nowhere else."""

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from tests.simulation.drawing import draw
from tests.simulation.paths import PATHS
from tests.simulation.trials import try_on

FEWEST = 0.01  # of the histories take a path, or it is not drawn
ENOUGH = 1000  # histories for that to be judged
ELSEWHERE = 20  # histories without the path on which its mutation is tried
TRIES = 150  # histories with the path on which it is tried, until one catches it


@dataclass(frozen=True)
class Check:
    """What became of a path's mutation.

    Attributes:
        path: its name.
        caught: the seed that catches it and the kind of the violation; None: no seed does.
        tries: histories with the path that it took.
        elsewhere: seeds without the path that catch it, too.
    """

    path: str
    caught: tuple | None
    tries: int
    elsewhere: tuple

    @property
    def ok(self):
        return self.caught is not None and not self.elsewhere

    def __str__(self):
        found = f"seed {self.caught[0]:5}  {self.caught[1]}" if self.caught else "NOT CAUGHT"
        wrong = f"  ALSO WITHOUT IT: {self.elsewhere}" if self.elsewhere else ""
        return f"{self.path:36} {self.tries:4} tries  {found}{wrong}"


def shares(paths):
    """By path, which share of the histories took it.

    Args:
        paths: by seed, the names of those that were taken.
    """
    counts = Counter(name for names in paths.values() for name in names)
    return {path.name: counts[path.name] / max(1, len(paths)) for path in PATHS}


def rare(paths):
    """The paths that too few histories took; of a few histories nothing can be said."""
    if len(paths) < ENOUGH:
        return []
    return [name for name, share in shares(paths).items() if share < FEWEST]


def check(path, paths, known):
    """Try a path's mutation, on histories that took it and on some that did not.

    Args:
        path: which one.
        paths: by seed, the names of those that were taken.
        known: by mutation, a seed that may well catch it: it is tried first.
    """
    took = [seed for seed, names in sorted(paths.items()) if path.name in names]
    took.sort(key=lambda seed: seed != known.get(path.mutation))
    others = [seed for seed, names in sorted(paths.items()) if path.name not in names]
    caught, tries = None, 0
    for seed in islice(took, TRIES):
        tries += 1
        if kind := try_on(path.mutation, draw(seed)):
            caught = seed, kind
            break
    elsewhere = [s for s in others[:ELSEWHERE] if try_on(path.mutation, draw(s)) is not None]
    return Check(path.name, caught, tries, tuple(elsewhere))
