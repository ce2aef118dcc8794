"""`python -m tests.fuzz`: throw hostile bytes at the decoders, or replay one input."""

import argparse
import sys
from pathlib import Path

from tests.fuzz.campaign import run_cases
from tests.fuzz.judging import judge
from tests.fuzz.targets import TARGETS

_SHOWN_HEX = 4000  # digits; a longer input goes into a file


def main(arguments=None):
    """Do what the command line says; returns the exit code."""
    options = _options().parse_args(arguments)
    if options.replay:
        return _replay(options.replay, options.hex)
    result = run_cases(options.cases, options.seed, options.jobs, _count)
    rate = result.cases.total() / result.seconds
    print(
        f"\r{result.cases.total()} cases of {len(result.cases)} decoders in"
        f" {result.seconds:.0f} s ({rate:.0f} a second), seed {options.seed}:"
        f" {len(result.violations)} violations"
    )
    for violation in _one_of_a_kind(result.violations):
        _show(violation)
    return 1 if result.violations else 0


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--replay", choices=TARGETS, metavar="DECODER", help="with --hex: this one")
    parser.add_argument("--hex", default="", help="the input, or @FILE with it")
    return parser


def _count(done, violations):
    if sys.stdout.isatty() or done % 100_000 == 0:
        print(f"\r{done} cases, {violations} violations", end="", flush=True)


def _one_of_a_kind(violations):
    """The shortest input of each kind of violation."""
    kinds = {}
    for violation in sorted(violations, key=lambda v: len(v.data)):
        kinds.setdefault((violation.target, violation.what[:30]), violation)
    return kinds.values()


def _show(violation):
    text = violation.data.hex()
    if len(text) > _SHOWN_HEX:
        path = Path(f"fuzz-{violation.target.replace(' ', '-')}-{len(text) // 2}.hex")
        path.write_text(text)
        text = f"@{path}"
    print(f"\n{violation.target}: {violation.what}")
    print(f"  again: python -m tests.fuzz --replay '{violation.target}' --hex {text}")


def _replay(name, text):
    text = Path(text[1:]).read_text() if text.startswith("@") else text
    violation = judge(name, TARGETS[name], bytes.fromhex(text), measured=True)
    print(f"{name}: {violation.what if violation else 'a value, or ProtocolError, within bounds'}")
    return 1 if violation else 0


if __name__ == "__main__":
    sys.exit(main())
