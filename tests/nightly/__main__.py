"""The long suites, one after another: what each found and took is written to docs/proof/nightly.md.

    python -m tests.nightly                        # all, some hours
    python -m tests.nightly --stages "simulate mutants"
    python -m tests.nightly --quick --page /tmp/page.md   # to try it: each is small

A stage that fails, or takes longer than its bound, does not stop the others; the page keeps what
it says of stages that are not run. Exit code 1: not all passed; 3: there is no such stage.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orderly.testing.container import IMAGE

ROOT = Path(__file__).parents[2]
_OWN = "docs/proof/nightly.md"  # changed by each run
PAGE = ROOT / _OWN
LOGS = ROOT / "build" / "nightly"
ABOUT = """\
# The long suites

`make nightly` runs them one after another and writes this page (`tests/nightly`);
`STAGES="simulate mutants"` chooses. A stage that fails, or takes longer than its bound, does not
stop the others. Each row shows the last run of a stage: when it began (UTC), and on which commit.
"""
HEAD = [
    "| stage | what was run | result | found | minutes | begun | commit |",
    "|---|---|---|---|---|---|---|",
]
FOUND = re.compile(
    r"^\d+ (?:seeds|cases of|of \d+ mutants)\b.*|^mutations caught.*|^score.*"
    r"|\d+ (?:passed|failed)\b.*(?= in )"
    r'|^ *"(?:rounds|sent|delivered|lost|disorder|skipped|flat)": [^\n{}\[\]]*$',
    re.MULTILINE,
)
GRACE = 30  # seconds from SIGTERM to SIGKILL: brokers are ended with their tests


@dataclass(frozen=True)
class Stage:
    """One suite.

    Attributes:
        name: as `--stages` says it.
        make: the arguments of make.
        quick: the same, as small as it gets.
        minutes: what it may take.
    """

    name: str
    make: tuple[str, ...]
    quick: tuple[str, ...]
    minutes: float


@dataclass(frozen=True)
class Outcome:
    """What came of a stage; `result` is "passed", or why not; `found` is what its output counts."""

    stage: str
    command: str
    result: str
    found: str
    seconds: float
    begun: datetime


def _stage(name: str, make: str, full: str, quick: str, minutes: float) -> Stage:
    """`full` and `quick` are make's variables, of which ARGS comes last and may have blanks."""
    commands = [(make, *_variables(each)) for each in (full, quick)]
    return Stage(name, commands[0], commands[1], minutes)


def _variables(text: str) -> list[str]:
    before, args, after = text.partition("ARGS=")
    return [*before.split(), *([args + after] if args else [])]


_KILLS = "ROUNDS=20 ARGS=--order {} --handler {}"
_PARK = " --poison 0.003 --killers 2"
_QUICK = "ROUNDS=1 ARGS=--order {} --handler {}"

STAGES = (
    _stage("simulate", "simulate", "ARGS=--seeds 10000 --known --paths", "ARGS=--seeds 20", 420),
    _stage("tests", "test-nightly", "", "JOBS=0 ARGS=-k test_broker_hangs", 90),
    _stage("bare", "readme-bare", "", "ARGS=make demo", 120),
    _stage("members", "test-members", "", "ARGS=--members=1 -k test_a_dead_letter_is_final", 240),
    _stage("versions", "test-versions", "", "VERSIONS=5.5.0 ARGS=--quick", 600),
    _stage("compiled", "test-compiled", "ARGS=--more", "ARGS=-k test_a_platform_wheel", 120),
    _stage("container", "test-container", "", "SMOKE=1 ARGS=-k test_container", 60),
    _stage("proxy", "test-proxy", "", "SMOKE=1 JOBS=0 ARGS=-k proxy", 120),
    _stage(
        "kill-queue",
        "kill-rounds",
        _KILLS.format("queue", "sync"),
        _QUICK.format("queue", "sync"),
        60,
    ),
    _stage(
        "kill-key", "kill-rounds", _KILLS.format("key", "async"), _QUICK.format("key", "async"), 60
    ),
    _stage(
        "kill-parking",
        "kill-rounds",
        _KILLS.format("key", "listener") + _PARK,
        _QUICK.format("key", "listener") + _PARK,
        90,
    ),
    _stage("kill-lease", "kill-rounds", "ROUNDS=10 LEASE=60", "ROUNDS=1 LEASE=8", 90),
    _stage("mutants", "mutants", "", "ARGS=--sample 2 --seeds 2", 300),
    _stage("fuzz", "fuzz", "ARGS=--cases 1000000", "ARGS=--cases 1000", 120),
    _stage("chaos", "chaos", "ROUNDS=50", "ROUNDS=1", 120),
    _stage("soak", "soak", "", "ARGS=--minutes 0.5 --messages 1000 --every 1", 60),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the stages, write the page; returns the exit code."""
    given = _options().parse_args(arguments)
    known = {stage.name: stage for stage in STAGES}
    if unknown := [name for name in given.stages.split() if name not in known]:
        print(f"no stage {', '.join(unknown)}; there are: {' '.join(known)}", file=sys.stderr)
        return 3
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in given.stages.split() or known:
        outcome = run(known[name], quick=given.quick)
        before = given.page.read_text() if given.page.exists() else ""
        given.page.write_text(page(before, outcome))  # after each: the night may end early
        print(f"{name}: {outcome.result}, {outcome.seconds / 60:.1f} min", flush=True)
        failed |= outcome.result != "passed"
    return int(failed)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make nightly", description=__doc__)
    parser.add_argument("--stages", default="", help="names, with blanks between; default: all")
    parser.add_argument("--quick", action="store_true", help="each as small as it gets")
    parser.add_argument("--page", type=Path, default=PAGE, help="what is written")
    return parser


def run(stage: Stage, *, quick: bool = False) -> Outcome:
    """Run a stage to its end or its bound; all it prints goes to build/nightly/NAME.log."""
    arguments = stage.quick if quick else stage.make
    begun, log_file = datetime.now(UTC), LOGS / f"{stage.name}.log"
    start = time.monotonic()
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            ["make", *arguments],
            cwd=ROOT,
            env=_without_make(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = process.wait(stage.minutes * 60)
            result = "passed" if code == 0 else f"failed, exit code {code}"
        except subprocess.TimeoutExpired:
            _end(process)
            result = f"failed, took longer than {stage.minutes:g} min"
    shown = " ".join(f'{n}="{v}"' for n, _, v in (each.partition("=") for each in arguments[1:]))
    command = f"make {arguments[0]} {shown}".strip()
    counted = FOUND.findall(log_file.read_text(errors="replace"))
    found = "; ".join(re.sub('[",=]', "", line).strip() for line in counted[-8:])
    return Outcome(stage.name, command, result, found, time.monotonic() - start, begun)


def _without_make(environment: Mapping[str, str]) -> dict[str, str]:
    """What a `make` around us hands down, its variables and flags, is not meant for a stage."""
    flags = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}
    variables = set(re.findall(r"(\w+)=", environment.get("MAKEFLAGS", "")))
    return {name: it for name, it in environment.items() if name not in flags | variables}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a stage and all that it started; it leads a session of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _git(*asked: str) -> str:
    """What git answers, of this checkout."""
    command = ["git", *asked]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def page(before: str, outcome: Outcome) -> str:
    """The page's text.

    Args:
        before: the text until now: its rows stay, but for the stage's own.
        outcome: of the stage that was run.
    """
    rows = {found[1]: found[0] for found in re.finditer(r"^\| (\S+) \| `.*", before, re.MULTILINE)}
    commit = _git("describe", "--always", "--abbrev=12")
    if _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{_OWN}"):
        commit += "-dirty"
    rows[outcome.stage] = (
        f"| {outcome.stage} | `{outcome.command}` | {outcome.result} | {outcome.found} |"
        f" {outcome.seconds / 60:.1f} | {outcome.begun:%Y-%m-%d %H:%M} | {commit} |"
    )
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    about = f"{machine}, Python {platform.python_version()}, RocketMQ {IMAGE.rpartition(':')[2]}."
    shown = [rows[stage.name] for stage in STAGES if stage.name in rows]
    return "\n".join([ABOUT, about, "", *HEAD, *shown, ""])


if __name__ == "__main__":
    sys.exit(main())
