"""One real broker and one fake one, side by side."""

import pytest

from orderly.testing import FakeBroker


@pytest.fixture(scope="session")
def real(pytestconfig, request):
    """The address of a real broker's name server."""
    if pytestconfig.getoption("--orderly-broker") == "fake":
        pytest.skip("compares the fake broker with a real one; run with --orderly-broker=embedded")
    return request.getfixturevalue("orderly_namesrv")


@pytest.fixture(scope="session")
def fake():
    """The address of a fake broker's name server."""
    with FakeBroker() as broker:
        yield broker.namesrv
