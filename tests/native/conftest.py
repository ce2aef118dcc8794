"""Each test runs on the stub; where ORDERLY_LIBROCKETMQ names the real library, on that as well."""

import os

import pytest

from orderly.native.library import VARIABLE
from tests.native.worlds import Real, Stub, compile_stub
from tests.support.optional import param
from tests.support.waiting import eventually

STUB = param("stub", "cc")
WORLDS = [STUB, "real"] if os.environ.get(VARIABLE) else [STUB]
_OF_THE_REAL_ONE = [
    "test_dead_letters_of_librocketmq.py",
    "test_librocketmq_beside_our_client.py",
    "test_librocketmq_in_trouble.py",
]
collect_ignore = [] if "real" in WORLDS else _OF_THE_REAL_ONE


@pytest.fixture(scope="session")
def stub_path(tmp_path_factory):
    return compile_stub(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def stub(stub_path):
    with Stub(stub_path) as world:
        world.calls.StubRetryAfter(0.01)
        yield world
        world.calls.StubHold(0)
        world.calls.StubFail(0, 0)
    assert (world.calls.StubAlive(), world.calls.StubRunning()) == (0, 0)


@pytest.fixture(params=WORLDS)
def world(request):
    """The stub, or the real library."""
    if request.param == "stub":
        yield request.getfixturevalue("stub")
        return
    namesrv = request.getfixturevalue("orderly_namesrv")
    with Real(os.environ[VARIABLE], namesrv, request.getfixturevalue("orderly_topic")) as real:
        yield real


@pytest.fixture
def soon():
    """Wait for a condition: generous, as the real library takes its time to join a group."""
    return lambda condition: eventually(condition, within=90)
