"""`make nightly`: a stage that fails or hangs stops no other, and the page has a row for each."""

import re
import subprocess
import sys

import pytest

from tests.nightly import __main__ as nightly
from tests.nightly.__main__ import ROOT, STAGES, Stage

MAKEFILE = """\
good:
	@echo $(WHO)
	@echo '  "lost": 0,'
	@echo '  "disorder": 0'
bad:
	@exit 1
slow:
	@sleep 600
"""


@pytest.fixture
def night(tmp_path, monkeypatch):
    """Runs stages of a Makefile of its own; returns the exit code and the page's text."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.setattr(nightly, "LOGS", tmp_path)
    made = [Stage(name, (name, "WHO=7 seeds"), (name,), 0.02) for name in ("slow", "bad", "good")]
    monkeypatch.setattr(nightly, "STAGES", made)
    monkeypatch.setattr(nightly, "ROOT", tmp_path)

    def run(*arguments):
        page = tmp_path / "nightly.md"
        return nightly.main([f"--page={page}", *arguments]), page.read_text()

    return run


def test_a_failed_stage_does_not_stop_the_others(night, tmp_path):
    code, page = night()
    assert code == 1
    results = re.findall(r"^\| (\w+) \| `([^`]+)` \| ([^|]+) \| ([^|]*) \|", page, re.MULTILINE)
    assert results == [
        ("slow", 'make slow WHO="7 seeds"', "failed, took longer than 0.02 min", ""),
        ("bad", 'make bad WHO="7 seeds"', "failed, exit code 2", ""),
        ("good", 'make good WHO="7 seeds"', "passed", "7 seeds; lost: 0; disorder: 0"),
    ]


def test_chosen_stages_alone_are_run_and_the_other_rows_stay(night):
    night()
    code, page = night("--stages", "good", "--quick")
    assert code == 0
    rows = re.findall(r"^\| (\w+) \| `([^`]+)`", page, re.MULTILINE)
    assert rows == [
        ("slow", 'make slow WHO="7 seeds"'),
        ("bad", 'make bad WHO="7 seeds"'),
        ("good", "make good"),
    ]


def test_a_stage_takes_nothing_from_the_make_around_it(night, tmp_path, monkeypatch):
    monkeypatch.setenv("MAKELEVEL", "1")  # as under `make nightly WHO=nobody`
    monkeypatch.setenv("MAKEFLAGS", "w -- WHO=nobody")
    monkeypatch.setenv("WHO", "nobody")
    night("--stages", "good", "--quick")
    assert (tmp_path / "good.log").read_text().startswith("\n")


def test_a_stage_that_is_none_is_refused():
    command = [sys.executable, "-m", "tests.nightly", "--stages", "simulate sumulate"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "no stage sumulate; there are: simulate" in done.stderr


def test_every_stage_is_a_target_of_the_makefile():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {stage.make[0] for stage in STAGES} <= set(targets)
