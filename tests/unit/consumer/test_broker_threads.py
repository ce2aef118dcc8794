"""Steps at several brokers: each waits for nobody else's, and at one broker for its own."""

import threading

import pytest

from orderly.consumer.broker_threads import BrokerThreads
from tests.support.waiting import eventually


@pytest.fixture
def late():
    return []


@pytest.fixture
def steps(late):
    return BrokerThreads("test", lambda: late.append(1))


@pytest.fixture
def hanging(steps):
    """A step at broker "a" that is under way and that nobody waits for; set it to end it."""
    go_on = threading.Event()
    steps.run({"a": lambda: go_on.wait(60)}, 0.0)
    yield go_on
    go_on.set()


def test_all_are_done_when_it_returns(steps, late):
    done = []
    steps.run({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, 60)
    assert sorted(done) == ["a", "b"]
    assert (steps.wait(0), late) == (True, [])


def test_they_run_side_by_side(steps):
    both = threading.Barrier(2)
    steps.run({"a": lambda: both.wait(60), "b": lambda: both.wait(60)}, 60)
    assert not both.broken


def test_one_that_hangs_is_not_waited_for_and_tells_when_it_ends(steps, hanging, late):
    assert not steps.wait(0)
    hanging.set()
    assert steps.wait(60)
    eventually(lambda: late == [1])


def test_where_one_runs_no_other_begins_and_elsewhere_it_does(steps, hanging):
    done = []
    steps.run({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, 60)
    assert done == ["b"]
    hanging.set()
    assert steps.wait(60)
    steps.run({"a": lambda: done.append("a")}, 60)
    assert done == ["b", "a"]


def test_a_defect_in_one_does_not_keep_its_broker_busy(steps, caplog):
    steps.run({"a": lambda: 1 / 0}, 60)
    assert steps.wait(0)
    assert "ZeroDivisionError" in caplog.text


def test_without_a_thread_they_are_done_one_after_the_other(steps, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []
    steps.run({"b": lambda: done.append("b"), "a": lambda: done.append("a")}, 60)
    assert done == ["a", "b"]
