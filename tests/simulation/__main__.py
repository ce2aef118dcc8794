"""`python -m tests.simulation`: run seeds, try the mutations, replay a seed."""

import argparse
import os
import sys

from tests.simulation.campaign import check_paths, run_seeds, search, try_known
from tests.simulation.drawing import draw
from tests.simulation.mutations import MUTATIONS, write_seeds
from tests.simulation.path_checks import rare, shares
from tests.simulation.shrink import shrink
from tests.simulation.verdict import EXCUSES
from tests.simulation.world import Violation, run

_SHOWN = 3  # failing seeds that are shrunk and shown in full
_LONGEST = 120  # characters of what is told of each


def main(arguments=None):
    """Do what the command line says; returns the exit code."""
    options = _options().parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay, shrunk=options.shrink)
    result = run_seeds(range(options.start, options.start + options.seeds), options.jobs, _count)
    print(f"\r{result.seeds} seeds, {len(result.violations)} violations, {result.seconds:.1f} s")
    print(_judged(result.counts))
    for name, meaning in EXCUSES.items():
        print(f"  {result.counts[name]:6}  {meaning}")
    for seed, (_, text) in sorted(result.violations.items()):
        print(f"  seed {seed:6}  {text[:_LONGEST]}")
    for seed, (kind, _) in sorted(result.violations.items())[: options.shown]:
        _show(draw(seed), kind)
    all_paths = _look_at_paths(result.paths, options)
    if options.known or options.mutations is not None:
        result.caught = _try_mutations(options)
    return 0 if result.ok and all_paths else 1


def _look_at_paths(paths, options):
    """Tell which share of the histories took each path; returns whether none is missing."""
    for name, share in shares(paths).items():
        print(f"  {share:6.1%}  {name}")
    missing = rare(paths)
    if missing:
        print("too few histories take:", ", ".join(missing))
    if not options.paths:
        return not missing
    print("each path, and the seed at which the mutation shows that only it can show:")
    checks = check_paths(paths, options.jobs, lambda made: print(f"  {made}", flush=True))
    return not missing and all(made.ok for made in checks)


def _try_mutations(options):
    """All of them: on the seeds that caught them last, or with a search for such seeds."""
    if options.mutations is None:
        caught = try_known(list(MUTATIONS), options.jobs, _tell_failure)
    else:
        names = options.mutations or list(MUTATIONS)
        print(f"{len(names)} mutations of the library, and the first seed that catches each:")
        caught = search(names, options.jobs, _tell)
        if options.write:
            write_seeds(caught)
    print(f"mutations caught: {sum(map(bool, caught.values()))} of {len(caught)}")
    if options.known and not all(caught.values()):
        print('other seeds may catch them: make simulate ARGS="--seeds 0 --mutations --write"')
    return caught


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many (10,000)")
    parser.add_argument("--from", dest="start", type=int, default=0, help="the first one (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one a core)")
    parser.add_argument(
        "--known", action="store_true", help="try each mutation, too, on the seed that caught it"
    )
    parser.add_argument(
        "--mutations",
        nargs="*",
        metavar="NAME",
        choices=list(MUTATIONS),
        help="look for the first seed that catches each, or each of those named",
    )
    parser.add_argument(
        "--write", action="store_true", help="with --mutations: remember those seeds"
    )
    parser.add_argument(
        "--paths", action="store_true", help="try what each path alone shows, there and elsewhere"
    )
    parser.add_argument(
        "--shown", type=int, default=_SHOWN, help=f"failing seeds to show in full ({_SHOWN})"
    )
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


def _tell(name, found):
    text = f"{found[0]:6}  {found[1]}" if found else _missed(found)
    print(f"  {name:40} {text}", flush=True)


def _missed(found):
    return "NOT CAUGHT" if found is None else f"NOT CAUGHT: it {found}"


def _tell_failure(name, found):
    if not found:
        why = "" if found is None else f": it {found}"
        print(f"  {name} is no longer caught by the seed that caught it last{why}", flush=True)


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
