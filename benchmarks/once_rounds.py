"""Rounds in which members that keep a ledger are killed and stopped; its balances are compared.

    python -m benchmarks.once_rounds --rounds 10

Each round kills one of three members, stops another for longer than its lease and lets it go on.
Exit code 0: every entry is in the ledger once and in its place; 1 otherwise.
"""

import argparse
import json
import sys

from tests.support.consuming import unique
from tests.support.ledger import LedgerRounds
from tests.support.programs import postgresql


def run(given):
    """All rounds; returns the report."""
    names = unique("group"), unique("topic")
    with postgresql() as url, LedgerRounds(url, *names, seed=given.seed) as rounds:
        for number in range(given.rounds):
            rounds.strike()
            print(f"round {number + 1}: {dict(rounds.ledger.verdicts())}", file=sys.stderr)
        rounds.settle()
        return {"rounds": given.rounds, "seed": given.seed, **rounds.report()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    report = run(parser.parse_args())
    print(json.dumps(report, indent=2))
    sys.exit(0 if report["ok"] else 1)


if __name__ == "__main__":
    main()
