"""examples/pytest_project: its tests pass on a real broker (tests/docs has the fake)."""

from tests.support.programs import EXAMPLES


def test_its_tests_pass(start, orderly_namesrv):
    options = (f"--orderly-broker={orderly_namesrv}", "-p", "no:cacheprovider", "-p", "no:xdist")
    run = start("-m", "pytest", *options, cwd=EXAMPLES / "pytest_project", PYTEST_ADDOPTS="")
    assert run.process.wait(120) == 0, "\n".join(run.lines)
    assert "12 passed" in run.lines[-1]
