"""One real broker and one fake one, side by side."""

import pytest

from orderly.testing import FakeBroker


@pytest.fixture(scope="session")
def real(pytestconfig, request):
    """The address of a real broker's name server."""
    if pytestconfig.getoption("--orderly-broker") == "fake":
        pytest.skip("compares the fake broker with a real one; run with --orderly-broker=embedded")
    return request.getfixturevalue("operator_namesrv")


@pytest.fixture(scope="session")
def _fake():
    with FakeBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def fake(_fake):
    """The address of a fake broker's name server."""
    return _fake.namesrv


@pytest.fixture(scope="session")
def fake_proxy(_fake):
    """The address of its proxy."""
    return _fake.proxy
