"""Ordered messages side by side with every peer, on one local broker.

    python -m benchmarks.peers                     # all of it; 20 minutes on 2 cores
    python -m benchmarks.peers --json --quick      # one short round of everything: does it work?
    python -m benchmarks.peers --only consume --sides ours,java --rounds 3 --count 100000

Every side runs in a process of its own, by its own clock. Sides alternate within each round, ratios
are taken within each round, and their medians count.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from benchmarks.peers.about import about
from benchmarks.peers.bench import BACKLOG, COMMANDS, GRPC, NATIVE, Bench, load
from benchmarks.peers.goals import SUFFIXES
from benchmarks.peers.page import PLOT, details, headline, inserted
from benchmarks.peers.parts import deadlines, measure
from benchmarks.peers.plot import draw
from benchmarks.peers.report import as_json, as_text
from benchmarks.peers.work import PARTS

PAGE = Path(__file__).parents[1] / "README.md"
RAW = PAGE.with_name("figures.md")
ROUNDS = 5
MOST_SECONDS = 20 * 60.0  # after which no further round begins: a slow machine makes fewer
QUICK = 1, 40_000  # rounds, messages of a backlog


def main():
    given = _arguments()
    told = about(load(), GRPC, NATIVE)
    with Bench(given.sides, given.count) as bench:
        measured = _all(bench, given)
        report = as_json(measured, told, bench.commands)
    if given.write:
        _write(report)
    print(json.dumps(report, indent=2) if given.json else as_text(report))


def _write(report):
    """Renew the picture and the generated parts of both pages."""
    command = " ".join(["python -m benchmarks.peers", *sys.argv[1:]])
    draw(report, PAGE.with_name(PLOT))
    for page, part in ((PAGE, headline(report)), (RAW, details(report, command))):
        page.write_text(inserted(page.read_text(), part))


def _all(bench, given):
    parts = [PARTS[name] for name in given.only]
    work = [(part, size) for part in parts for size in part.sizes if size in given.sizes]
    ends = deadlines([part.share for part, _ in work], time.monotonic(), MOST_SECONDS)
    return [
        measure(part, size, _wanted(part.prepare(bench, size), given.sides), given.rounds, end)
        for (part, size), end in zip(work, ends, strict=True)
    ]


def _wanted(sides, peers):
    return {side: run for side, run in sides.items() if side.split("_")[0] in peers}


def _arguments():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--write", action="store_true", help="renew the figures in benchmarks/ and their picture"
    )
    parser.add_argument("--quick", action="store_true", help="one short round: does it work?")
    parser.add_argument(
        "--only", type=_some(PARTS), default=list(PARTS), help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--sides", type=_some(COMMANDS), default=list(COMMANDS), help=f"of {', '.join(COMMANDS)}"
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=list(SUFFIXES), help="bytes of body: 128,1024"
    )
    parser.add_argument("--rounds", type=int, help=f"interleaved rounds; default {ROUNDS}")
    parser.add_argument(
        "--count",
        type=int,
        help=f"messages of a backlog, others in proportion; default {BACKLOG:,}",
    )
    given = parser.parse_args()
    rounds, count = QUICK if given.quick else (ROUNDS, BACKLOG)
    given.rounds, given.count = given.rounds or rounds, given.count or count
    return given


def _some(known):
    def names(text):
        chosen = text.split(",")
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(
                f"no {', '.join(unknown)}; there are {', '.join(known)}"
            )
        return chosen

    return names


def _sizes(text):
    sizes = [int(size) for size in text.split(",")]
    if set(sizes) - set(SUFFIXES):
        raise argparse.ArgumentTypeError(f"bodies have {' or '.join(map(str, SUFFIXES))} bytes")
    return sizes


if __name__ == "__main__":
    main()
