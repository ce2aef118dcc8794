"""examples/pytest_project: its tests pass, on the fake and on a real broker."""

import pytest

from tests.support.program import EXAMPLES

FOLDER = EXAMPLES / "pytest_project"


@pytest.mark.parametrize("broker", ["fake", "real"])
def test_its_tests_pass(broker, start, orderly_namesrv):
    where = {"fake": "fake", "real": orderly_namesrv}[broker]
    options = (f"--broker={where}", "-p", "no:cacheprovider", "-p", "no:xdist")
    run = start("-m", "pytest", *options, cwd=FOLDER, PYTEST_ADDOPTS="")
    assert run.process.wait(120) == 0, "\n".join(run.lines)
    assert " 12 passed" in run.lines[-1]
