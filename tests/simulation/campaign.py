"""Many seeds on several processes, and the mutations that some seed must catch."""

import contextlib
import gc
import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.drawing import draw
from tests.simulation.mutations import MUTATIONS, applied, needs
from tests.simulation.world import Violation, run

_CHUNK = 20  # seeds a process gets at a time
MUTATION_SEEDS = 1500  # a mutation that none of these catches is a hole in the simulation


@dataclass
class Result:
    """What became of a campaign.

    Attributes:
        seeds: how many were run.
        seconds: of real time.
        violations: by seed, the kind and the text.
        counts: of the histories without one: "deliveries", those "excused", and how many had a
            broker "restarted", how many of these were judged "in full".
        caught: by mutation, how many seeds it took, and the kind of the violation; None: it was
            not caught.
    """

    seeds: int = 0
    seconds: float = 0.0
    violations: dict = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)
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
        for chunk, violations, counts in pool.imap_unordered(run_chunk, chunks):
            result.seeds += len(chunk)
            result.violations |= violations
            result.counts += counts
            progress(result.seeds)
    result.seconds = time.monotonic() - began
    return result


def run_chunk(seeds):
    """Run some seeds here; returns them, the violations by seed, and what there was to judge."""
    violations, counts = {}, Counter()
    with _rare_collections():
        for seed in seeds:
            try:
                report = run(draw(seed))
            except Violation as violation:
                violations[seed] = (violation.kind, str(violation))
            else:
                counts["deliveries"] += report.deliveries
                counts["excused"] += report.excused
                counts["restarted"] += report.restarted
                counts["in full"] += report.restarted and not report.excused
    return seeds, violations, counts


def try_mutations(names, jobs, progress=lambda name, caught: None):
    """Look for each mutation's first seed with a violation, on `jobs` processes.

    Returns:
        By mutation, (seeds it took, kind of the violation), or None.
    """
    caught = {}
    with _workers(jobs) as pool:
        for name, found in pool.imap_unordered(catch, names):
            caught[name] = found
            progress(name, found)
    return {name: caught[name] for name in MUTATIONS if name in caught}


def catch(name, limit=MUTATION_SEEDS):
    """Run seeds with a mutation until one fails; returns the name and what was found, or None."""
    with _rare_collections():
        for seed in range(limit):
            scenario = draw(seed)
            if needs(name) != "seed" and not getattr(scenario, needs(name)):
                continue
            try:
                with applied(name):
                    run(scenario)
            except Violation as violation:
                return name, (seed + 1, violation.kind)
    return name, None


@contextlib.contextmanager
def _rare_collections():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _workers(jobs):
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield pool
