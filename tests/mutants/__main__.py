"""How many defects of the core that keeps the order its tests notice: mutants, drawn from a seed.

    python -m tests.mutants                              # 100 mutants of orderly/ordering, seed 1
    python -m tests.mutants --sample 300 --seed 7 --seeds 200 --jobs 4

mutmut (its settings are in pyproject.toml) changes an operator, a number, a name or a condition of
a function, and runs the unit tests that reach it. What they do not notice is played by a short
simulation. Then `mutmut show NAME` shows a mutant. Exit code 1: it could not be measured.
"""

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = ROOT / "mutants"  # where mutmut keeps the changed code, and what came out
SMALL = "orderly.ordering.backoff.*"  # mutmut makes the mutants only when it runs some
UNIT, SIMULATION, NOBODY = "by unit tests", "by the simulation", "by nobody"
NOTICED = {
    "killed": True,
    "timeout": True,
    "segfault": True,
    "suspicious": True,  # pytest ended with an exit code of its own
    "survived": False,
    "no tests": False,
}
SLOWER = 10.0  # times the true code's time, and then a simulation is stuck


def main(arguments=None):
    """Do what the command line says."""
    given = _options().parse_args(arguments)
    shutil.rmtree(MUTANTS, ignore_errors=True)
    _mutmut("run", "--max-children", str(given.jobs), SMALL)
    names = list(_statuses())
    sample = draw(names, given.sample, given.seed)
    _mutmut("run", "--max-children", str(given.jobs), *sample)
    statuses = _statuses()
    found = {name: UNIT if NOTICED[statuses[name]] else NOBODY for name in sample}
    left = [name for name in sample if found[name] == NOBODY]
    with ThreadPoolExecutor(given.jobs) as pool:
        seen = pool.map(_player(given.seeds), left)
        found |= {name: SIMULATION for name, it_is in zip(left, seen, strict=True) if it_is}
    slow = sum(statuses[name] == "timeout" for name in sample)
    print(_as_text(found, len(names), slow, given))


def draw(names, count, seed):
    """Which of all mutants are run: the same for the same names and seed."""
    return sorted(random.Random(seed).sample(sorted(names), min(count, len(names))))


def interval(hits, count):
    """The share of all with 95 % certainty, low and high, if that of a sample is so (Wilson)."""
    z, share = 1.96, hits / count
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return tuple((middle + way * spread) / (1 + z * z / count) for way in (-1, 1))


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=100, help="how many mutants (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice (1)")
    parser.add_argument("--seeds", type=int, default=100, help="histories of a simulation (100)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one a core)")
    return parser


def _mutmut(*arguments):
    """What mutmut says; it ends this program if it fails."""
    # Beside the interpreter, without resolving links: that is the environment's.
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-5000:], done.stderr[-5000:], file=sys.stderr)
        sys.exit(1)
    return done.stdout


def _statuses():
    """What mutmut knows of each mutant, by name."""
    lines = _mutmut("results", "--all", "true").splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in lines if ": " in line)


def _player(seeds):
    """What plays so many histories with a mutant, and says whether it is noticed."""
    timeout = None

    def noticed(name):
        command = [sys.executable, "-m", "tests.simulation", "--jobs=1", "--shown=0"]
        variables = os.environ | {"MUTANT_UNDER_TEST": name, "PYTHONHASHSEED": "0"}
        told = {"cwd": MUTANTS, "env": variables, "capture_output": True, "timeout": timeout}
        try:
            done = subprocess.run([*command, f"--seeds={seeds}"], check=False, **told)
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0

    begun = time.monotonic()
    if noticed(""):
        sys.exit("the simulation finds a fault in the true code: mend that first")
    timeout = SLOWER * (time.monotonic() - begun) + 60.0
    return noticed


def _as_text(found, count, slow, given):
    """The score, and what nobody noticed."""
    by = Counter(found.values())
    seen = len(found) - by[NOBODY]
    low, high = interval(seen, len(found))
    lines = [
        f"{len(found)} of {count} mutants, seed {given.seed}",
        f"{by[UNIT]:6}  noticed {UNIT} (of these {slow} as they took too long)",
        f"{by[SIMULATION]:6}  noticed {SIMULATION} ({given.seeds} seeds)",
        f"{by[NOBODY]:6}  noticed {NOBODY}",
        f"score {seen / len(found):.1%} (of all, with 95 % certainty, {low:.1%} to {high:.1%})",
        *(f"  mutmut show {name}" for name in found if found[name] == NOBODY),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
