"""Many seeds on several processes, and the mutations that some seed must catch."""

import contextlib
import gc
import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from tests.simulation.drawing import draw
from tests.simulation.mutations import MUTATIONS, known_seeds, may_show
from tests.simulation.path_checks import check
from tests.simulation.paths import PATHS_BY_NAME
from tests.simulation.trials import try_on
from tests.simulation.world import Violation, run

_CHUNK = 20  # seeds a process gets at a time
MUTATION_SEEDS = 8000  # a mutation that none of these catches is a hole in the simulation


@dataclass
class Result:
    """What became of a campaign.

    Attributes:
        seeds: how many were run.
        seconds: of real time.
        violations: by seed, the kind and the text.
        counts: of the histories without one: "deliveries", those "excused", and how many had a
            broker "restarted", how many of these were judged "in full"; and `verdict.EXCUSES`.
        paths: by seed, the names of the `paths.PATHS` that it took.
        caught: by mutation, the seed that caught it, and the kind of the violation; what is false:
            it was not caught.
    """

    seeds: int = 0
    seconds: float = 0.0
    violations: dict = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)
    paths: dict = field(default_factory=dict)
    caught: dict = field(default_factory=dict)

    @property
    def ok(self):
        return not self.violations and all(self.caught.values())


def run_seeds(seeds, jobs, progress=lambda done: None):
    """Run the histories of `seeds` on `jobs` processes.

    Args:
        seeds: a range.
        jobs: how many processes.
        progress: told how many are done.
    """
    result, began = Result(), time.monotonic()
    chunks = [seeds[i : i + _CHUNK] for i in range(0, len(seeds), _CHUNK)]
    with _workers(jobs) as pool:
        for chunk, violations, counts, paths in pool.imap_unordered(run_chunk, chunks):
            result.seeds += len(chunk)
            result.violations |= violations
            result.counts += counts
            result.paths |= paths
            progress(result.seeds)
    result.seconds = time.monotonic() - began
    return result


def run_chunk(seeds):
    """Run some seeds here.

    Returns:
        Them, the violations by seed, what there was to judge, and the paths taken by seed.
    """
    violations, counts, paths = {}, Counter(), {}
    with _own_collections() as collect:
        for seed in seeds:
            collect()
            try:
                report = run(draw(seed))
            except Violation as violation:
                violations[seed] = (violation.kind, str(violation))
                paths[seed] = violation.paths
            else:
                paths[seed] = report.paths
                counts.update(report.excuses)
                counts["deliveries"] += report.deliveries
                counts["excused"] += report.excused
                counts["restarted"] += report.restarted
                counts["in full"] += report.restarted and not report.excused
    return seeds, violations, counts, paths


def search(names, jobs, progress=lambda name, found: None):
    """Look for each mutation's first seed with a violation, on `jobs` processes.

    Returns:
        By mutation, (seed, kind of the violation), or None, or a `trials.Breakdown`.
    """
    return _each(names, jobs, catch, progress)


def try_known(names, jobs, progress=lambda name, found: None):
    """Run each mutation on the seed that caught it last; returns what `search` does."""
    return _each(names, jobs, catch_again, progress)


def check_paths(paths, jobs, progress=lambda check: None):
    """Try each path's mutation; returns the checks.

    Args:
        paths: by seed, the names of those that were taken.
        jobs: how many processes.
        progress: told each check.
    """
    checks, known = [], {name: found[0] for name, found in known_seeds().items()}
    with _workers(jobs) as pool:
        for made in pool.imap_unordered(partial(_check, paths, known), PATHS_BY_NAME):
            checks.append(made)
            progress(made)
    return checks


def _check(paths, known, name):
    return check(PATHS_BY_NAME[name], paths, known)


def _each(names, jobs, look, progress):
    caught = {}
    with _workers(jobs) as pool:
        for name, found in pool.imap_unordered(look, names):
            caught[name] = found
            progress(name, found)
    return {name: caught[name] for name in MUTATIONS if name in caught}


def catch(name, limit=MUTATION_SEEDS):
    """Run seeds with a mutation until one fails; returns the name and what was found, or None."""
    return name, _first(name, range(limit))


def catch_again(name):
    """Run a mutation on the seed that caught it last, if there is one."""
    known = known_seeds().get(name)
    return name, _first(name, [] if known is None else known[:1])


def _first(name, seeds):
    """The first of some seeds that fails with a mutation, and the kind of the violation.

    It ends with the first `Breakdown`, and returns that: the mutation is to be repaired.
    """
    with _own_collections() as collect:
        for seed in seeds:
            scenario = draw(seed)
            if not may_show(name, scenario):
                continue
            collect()
            caught = try_on(name, scenario)
            if caught is not None:
                return (seed, caught) if caught else caught
    return None


@contextlib.contextmanager
def _own_collections():
    """Collect garbage between histories only, and look at no more than what they have made."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield gc.collect
    finally:
        gc.enable()
        gc.unfreeze()


@contextlib.contextmanager
def _workers(jobs):
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield pool
