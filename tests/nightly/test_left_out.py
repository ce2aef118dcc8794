"""What `make test` leaves out is said at its end, and run by a stage of `make nightly`."""

import os
import re
import subprocess
import sys

import pytest

from tests.nightly.__main__ import ROOT, STAGES

NEEDY, OTHER = "tests/integration/test_alert_rules.py", "tests/unit/test_layers.py"
FILE = "tests/integration/faults/test_broker_hangs.py"  # one of its two tests is marked


@pytest.fixture
def collected():
    """What pytest collects of the file with some options, and what it prints besides."""

    def collected(*options):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, FILE]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return set(re.findall(rf"^{re.escape(FILE)}::\S+", done.stdout, re.MULTILINE)), done.stdout

    return collected


def test_it_is_said_which_and_how_many(collected):
    others, said = collected()
    assert (len(others), "1 nightly tests (--nightly=with" in said) == (1, True)
    assert re.search(rf"^ +1 of {FILE}$", said, re.MULTILINE)


def test_it_is_run_if_asked_for_alone_or_with_the_others(collected):
    without, alone, everything = (
        collected(f"--nightly={it}")[0] for it in ("without", "only", "with")
    )
    assert len(alone) == 1
    assert without | alone == everything
    assert not without & alone
    assert "nightly tests" not in collected("--nightly=with")[1]


@pytest.mark.parametrize(("ci", "code", "said"), [("", 0, True), ("true", 0, False)])
def test_what_a_machine_lacks_is_left_out_and_in_ci_it_is_not(tmp_path, ci, code, said):
    env = {**os.environ, "PATH": str(tmp_path), "CI": ci}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", NEEDY, OTHER]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    told = re.search(
        r"^[1-9]\d* tests that need promtool \(Debian: prometheus\)$", done.stdout, re.MULTILINE
    )
    assert (told is not None, NEEDY in done.stdout) == (said, not said)
    assert OTHER in done.stdout


def test_a_process_beside_others_tells_the_one_that_prints():
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-k", "shorter", FILE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, "no test is left"
    assert re.search(rf"^ +1 of {FILE}$", done.stdout, re.MULTILINE)


def test_a_stage_runs_what_is_left_out():
    assert "test-nightly" in {stage.make[0] for stage in STAGES}
    recipe = (ROOT / "Makefile").read_text().partition("\ntest-nightly:")[2].partition("\n\n")[0]
    assert "$(call BOTH,$(COMPUTING),--nightly=only)" in recipe
