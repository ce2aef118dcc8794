"""The clock of accusations: it stands while its process does."""

import threading

import pytest

from orderly import clock
from orderly.awake import LATE, TICK
from orderly.clock import AwakeClock
from tests.support.standstill import can_stand_still
from tests.support.waiting import eventually

STOOD = 1000.0  # seconds; a busy machine does not take so long for anything


@pytest.fixture
def awake():
    made = AwakeClock()
    yield made
    made.close()


@pytest.fixture
def stand_still(monkeypatch):
    return can_stand_still(monkeypatch)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "orderly-awake"]


def test_it_goes_on_as_time_does(awake):
    since, before = clock.now(), awake.now()
    eventually(lambda: awake.now() > before + TICK + LATE)
    assert awake.now() - before <= clock.now() - since


@pytest.mark.parametrize("looked", [True, False])
def test_it_stands_while_the_process_does(awake, stand_still, looked):
    """Also for who asks before the thread has looked."""
    before, since = awake.now(), clock.now()
    if looked:
        eventually(lambda: awake.now() > before + TICK)
    stand_still(STOOD)
    assert awake.now() - before < STOOD / 2
    assert awake.since(since) < STOOD / 2
    eventually(lambda: awake.now() > before + TICK)


def test_a_moment_after_a_standstill_is_as_long_ago_as_it_is(awake, stand_still):
    awake.now()
    stand_still(STOOD)
    awake.now()
    since = clock.now()
    eventually(lambda: awake.since(since) > TICK)
    assert TICK < awake.since(since) <= clock.now() - since


def test_nothing_is_less_than_no_time_ago(awake, stand_still):
    awake.now()
    since = clock.now()
    stand_still(2.0)
    assert awake.since(since) == 0.0


def test_it_has_a_thread_from_the_first_question_to_its_end(awake):
    others = set(threads())
    awake.now()
    assert len(set(threads()) - others) == 1
    awake.now()
    assert len(set(threads()) - others) == 1
    awake.close()
    awake.close()
    eventually(lambda: not set(threads()) - others)
    before = awake.now()
    eventually(lambda: awake.now() > before)  # it can still be asked


def test_at_its_end_it_goes_on_where_it_is(awake, stand_still):
    before = awake.now()
    stand_still(STOOD)
    awake.now()
    awake.close()
    assert awake.now() - before < STOOD / 2
    stand_still(STOOD)
    assert awake.now() - before > STOOD / 2, "nobody looks any more"


def test_without_a_thread_every_second_counts(awake, stand_still, monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        before = awake.now()
        stand_still(STOOD)
        assert awake.now() - before > STOOD / 2
    before = awake.now()
    stand_still(STOOD)
    assert awake.now() - before < STOOD / 2, "there is one now"
