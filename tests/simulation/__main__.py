"""`python -m tests.simulation`: run seeds, try the mutations, replay a seed."""

import argparse
import os
import sys

from tests.simulation.campaign import run_seeds, try_mutations
from tests.simulation.drawing import draw
from tests.simulation.mutations import MUTATIONS
from tests.simulation.shrink import shrink
from tests.simulation.world import Violation, run

_SHOWN = 3  # failing seeds that are shrunk and shown in full


def main(arguments=None):
    """Do what the command line says; returns the exit code."""
    options = _options().parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay, shrunk=options.shrink)
    result = run_seeds(range(options.start, options.start + options.seeds), options.jobs, _count)
    print(f"\r{result.seeds} seeds, {len(result.violations)} violations, {result.seconds:.1f} s")
    print(_judged(result.counts))
    for seed, (kind, _) in sorted(result.violations.items())[:_SHOWN]:
        _show(draw(seed), kind)
    if options.mutations:
        print(f"{len(MUTATIONS)} mutations of the library, and the seeds it took to catch them:")
        result.caught = try_mutations(list(MUTATIONS), options.jobs, _tell)
        print(f"mutations caught: {sum(map(bool, result.caught.values()))} of {len(result.caught)}")
    return 0 if result.ok else 1


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--from", dest="start", type=int, default=0, help="the first one (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one a core)")
    parser.add_argument("--mutations", action="store_true", help="try the mutations, too")
    parser.add_argument("--replay", type=int, metavar="SEED", help="show one seed's history")
    parser.add_argument("--shrink", action="store_true", help="with --replay: cut it down first")
    return parser


def _count(done):
    if sys.stdout.isatty():
        print(f"\r{done} seeds", end="", flush=True)


def _judged(counts):
    deliveries, excused = counts["deliveries"], counts["excused"]
    share = f"{excused} excused ({excused / max(1, deliveries):.2%})"
    restarts = f"{counts['in full']} of {counts['restarted']} histories with a broker restart"
    return f"{deliveries} deliveries, {share}; {restarts} judged in full"


def _tell(name, caught):
    found = f"{caught[0]:4} seeds  {caught[1]}" if caught else "NOT CAUGHT"
    print(f"  {name:40} {found}", flush=True)


def _show(scenario, kind):
    small = shrink(scenario, kind)
    print(f"\nseed {scenario.seed} fails; cut down to what the failure needs:")
    _play(small)
    print(f"again: python -m tests.simulation --replay {scenario.seed} --shrink")


def _replay(seed, *, shrunk):
    scenario = draw(seed)
    if shrunk:
        try:
            run(scenario)
        except Violation as violation:
            scenario = shrink(scenario, violation.kind)
    return _play(scenario)


def _play(scenario):
    """Run a scenario, and print it with its trace; returns the exit code."""
    print(scenario)
    try:
        trace, end = run(scenario).trace, "no violation"
    except Violation as violation:
        trace, end = violation.trace, str(violation)
    print(*trace, end, sep="\n")
    return 0 if end == "no violation" else 1


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
