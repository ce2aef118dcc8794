"""Run on each RocketMQ release the suites that it can break; docs/reference/versions.md shows it.

    python -m tests.versions                          # all releases, some hours
    python -m tests.versions --versions "4.9.7 5.5.1"
    python -m tests.versions --quick --page /tmp/page.md   # to try it: a few tests of each suite

Each runs as an embedded broker, by the list of jars in tests/versions/jars. What fails runs a
second time, alone: on a busy machine tests run out of time. Where a release is
known to differ (`differences.py`), the test must fail, and the page lists it. Exit code 1:
something else failed; 3: there is no such release. A release that is not run keeps its row.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.versions import differences

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "versions.md"
LOGS = ROOT / "build" / "versions"
JARS = Path(__file__).parent / "jars"
OURS = ROOT / "orderly" / "testing" / "jars.txt"
BEGIN, END = "<!-- begin: make test-versions -->", "<!-- end: make test-versions -->"
HEAD = [
    "| release | contract | behaviour, 2 members | monitoring | rolling upgrade | run |",
    "|---|---|---|---|---|---|",
]
NONE = "-"
PATIENCE = 150  # seconds for a test, where it names no other


@dataclass(frozen=True)
class Suite:
    """What is run on a release.

    Attributes:
        name: its column.
        paths: for pytest.
        quick: an expression for `-k`, as small as it gets.
        minutes: what it may take.
    """

    name: str
    paths: tuple[str, ...]
    quick: str
    minutes: float


_MONITORING = (
    "test_backlog_broker_side test_backlog_details test_backlog_judged_right test_backlog_outage"
    " test_backlog_report test_backlog_scan test_members_are_asked test_offsets_cli"
    " test_parked_cli test_skew_and_locks"
)
SUITES = (
    Suite("contract", ("tests/contract",), "a_route", 30),
    Suite("behaviour, 2 members", ("tests/behaviour",), "a_dead_letter_is_final", 120),
    Suite(
        "monitoring",
        tuple(f"tests/integration/{name}.py" for name in _MONITORING.split()),
        "offsets",
        60,
    ),
    Suite("rolling upgrade", ("tests/versions/test_rolling_upgrade.py",), "queue", 20),
)
UPGRADE = SUITES[-1]
UPGRADED_TO = ("5.5.0", "5.5.1")  # from 5.3.3, under traffic


@dataclass(frozen=True)
class SuiteOutcome:
    """Of one suite on one release.

    Attributes:
        passed: how many tests did, at last.
        differ: how many failed that were to fail.
        failed: the names of the others.
        ended: within the suite's bound.
        alone: how many of `passed` did only when they ran a second time, without others.
    """

    passed: int
    differ: int
    failed: tuple[str, ...]
    ended: bool = True
    alone: int = 0

    @property
    def text(self) -> str:
        """Its cell in the table."""
        alone = f" ({self.alone} only when run alone)" if self.alone else ""
        parts = [f"{self.passed} passed{alone}", f"{self.differ} differ" if self.differ else ""]
        parts += [f"**{len(self.failed)} failed**" if self.failed else ""]
        parts += ["" if self.ended else "**did not end**"]
        return ", ".join(filter(None, parts))


def main(arguments: list[str] | None = None) -> int:
    """Run the releases, write the table; returns the exit code."""
    given = _options().parse_args(arguments)
    known = releases()
    if unknown := [name for name in given.versions.split() if name not in known]:
        print(f"no release {', '.join(unknown)}; there are: {' '.join(known)}", file=sys.stderr)
        return 3
    LOGS.mkdir(parents=True, exist_ok=True)
    whole = True
    for release in given.versions.split() or known:
        begun = datetime.now(UTC)
        outcomes = {}
        for suite in SUITES:
            if suite is not UPGRADE or release in UPGRADED_TO:
                outcomes[suite.name] = run(release, suite, quick=given.quick, jobs=given.jobs)
                _report(release, suite, outcomes[suite.name])
        given.page.write_text(page(given.page.read_text(), release, outcomes, begun))
        whole &= all(each.ended and not each.failed for each in outcomes.values())
    return int(not whole)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make test-versions", description=__doc__)
    parser.add_argument("--versions", default="", help="with blanks between; default: all")
    parser.add_argument("--quick", action="store_true", help="a few tests of each suite")
    parser.add_argument("--page", type=Path, default=PAGE, help="whose table is written")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side")
    return parser


def releases() -> list[str]:
    """Those there are lists of jars for, oldest first; ours is in the package."""
    broker = re.search(r"/rocketmq-broker-([\d.]+)\.jar", OURS.read_text())
    assert broker is not None
    found = {broker[1], *(each.stem for each in JARS.glob("*.txt"))}
    return sorted(found, key=lambda text: tuple(map(int, text.split("."))))


def jars_of(release: str) -> Path:
    """A release's list."""
    listed = JARS / f"{release}.txt"
    return listed if listed.exists() else OURS


def run(release: str, suite: Suite, *, quick: bool, jobs: int) -> SuiteOutcome:
    """Run a suite to its end or its bound, and what failed once more, alone."""
    base = LOGS / f"{release}-{suite.name.partition(',')[0].replace(' ', '-')}"
    cache = f"{base}-cache"
    shutil.rmtree(cache, ignore_errors=True)
    options = [f"-ocache_dir={cache}", *(["-k", suite.quick] if quick else []), *suite.paths]
    first = _pytest(release, suite, f"{base}", "-n", str(jobs), "--dist", "loadfile", *options)
    if not first.failed:
        return first
    second = _pytest(release, suite, f"{base}-again", "-n0", "--last-failed", *options)
    if not second.ended:
        return first
    passed = first.passed + second.passed
    return replace(first, passed=passed, failed=second.failed, alone=second.passed)


def _pytest(release: str, suite: Suite, base: str, *options: str) -> SuiteOutcome:
    """Run pytest; what it prints goes to build/versions/."""
    results = Path(f"{base}.xml")
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.versions.differences"]
    command += ["--show-capture=no", "-m", "not slow", f"--timeout={PATIENCE}"]
    command += [f"--junitxml={results}", *options]
    env = os.environ | {
        "ORDERLY_JARS": str(jars_of(release)),
        "ORDERLY_TEST_RELEASE": release,
        "ORDERLY_REQUIRE_BROKER": "1",
    }
    with Path(f"{base}.log").open("wb") as log:
        try:
            subprocess.run(
                command, cwd=ROOT, env=env, stdout=log, stderr=log, check=False,
                timeout=suite.minutes * 60,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return SuiteOutcome(0, 0, (), ended=False)
    return read(results)


def read(results: Path) -> SuiteOutcome:
    """What a file of pytest's results says."""
    if not results.exists():
        return SuiteOutcome(0, 0, (), ended=False)
    passed, differ, failed = 0, 0, list[str]()
    for case in ET.parse(results).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif skipped is None:
            passed += 1
        else:
            differ += skipped.get("type") == "pytest.xfail"
    return SuiteOutcome(passed, differ, tuple(failed))


def _report(release: str, suite: Suite, outcome: SuiteOutcome) -> None:
    print(f"{time.strftime('%H:%M:%S')} {release} {suite.name}: {outcome.text}", flush=True)
    for name in outcome.failed:
        print(f"    {name}", flush=True)


def page(before: str, release: str, outcomes: dict[str, SuiteOutcome], begun: datetime) -> str:
    """The page's text with a release's new row and today's differences; the other rows stay."""
    head, _, rest = before.partition(BEGIN)
    table, _, tail = rest.partition(END)
    rows = dict(re.findall(r"^\| (\d[\d.]+) (\|.*)$", table, re.MULTILINE))
    cells = [outcomes[suite.name].text if suite.name in outcomes else NONE for suite in SUITES]
    asked = ["git", "describe", "--always", "--abbrev=12", "--dirty"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    cells += [f"{begun:%Y-%m-%d}, {commit.strip()}"]
    rows[release] = f"| {' | '.join(cells)} |"
    lines = [f"| {name} {rows[name]}" for name in releases() if name in rows]
    return head + "\n".join([BEGIN, "", *HEAD, *lines, "", *listed(), END]) + tail


def listed() -> list[str]:
    """The lines of the page about what differs, by the release that no longer does."""
    lines = list[str]()
    for before in dict.fromkeys(each.before for each in differences.DIFFERENCES):
        lines += [f"Before {before}:", ""]
        lines += [
            f"- {each.what} ({each.shown_by})"
            for each in differences.DIFFERENCES
            if each.before == before
        ]
        lines += [""]
    return lines


if __name__ == "__main__":
    sys.exit(main())
