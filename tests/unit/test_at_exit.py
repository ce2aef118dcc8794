"""What is open at the end of the process; what a whole program does is a behaviour test's."""

import os
import threading
import time

import pytest

from orderly import at_exit
from orderly.at_exit import Ending, close_all
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _nothing_else():
    before = dict(at_exit._OPEN)
    at_exit._OPEN.clear()
    yield
    at_exit._OPEN.clear()
    at_exit._OPEN.update(before)


@pytest.fixture
def patience(monkeypatch):
    def set_patience(handlers, everything):
        monkeypatch.setattr(at_exit, "FOR_HANDLERS", handlers)
        monkeypatch.setattr(at_exit, "PATIENCE", everything)

    return set_patience


@pytest.fixture
def said():
    return []


@pytest.fixture
def opened(said):
    def open_(name, close=lambda: None, *, last=False):
        def close_and_say():
            close()
            said.append(f"{name} closed")

        ending = Ending(name, close_and_say, lambda: said.append(f"{name} told"), last=last)
        ending.open()
        return ending

    return open_


def threads(name):
    return [t for t in threading.enumerate() if t.name == f"orderly-at-exit-{name}"]


def test_what_others_use_is_closed_after_them(opened, said):
    opened("producer", last=True)
    opened("consumer", lambda: time.sleep(0.2))
    close_all()
    assert said == ["consumer closed", "producer closed"]


def test_who_takes_too_long_is_told_and_holds_up_nobody(opened, said, patience):
    patience(0.2, 0.6)
    go_on = threading.Event()
    opened("slow", go_on.wait)
    opened("quick")
    opened("producer", last=True)
    close_all()
    go_on.set()
    assert sorted(said[:3]) == ["producer closed", "quick closed", "slow told"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_fails_is_told(opened, said, patience):
    patience(0.2, 0.4)
    opened("broken", lambda: 1 / 0)
    close_all()
    assert said == ["broken told"]


def test_what_was_closed_before_is_left_alone(opened, said):
    opened("one").done()
    eventually(lambda: not threads("one"))
    close_all()
    assert said == []


def test_who_is_closed_in_the_meantime_is_not_waited_for(opened, said, patience):
    patience(60.0, 120.0)
    ending = opened("one")
    ending.done()
    at_exit._OPEN[ending] = None  # as if it was looked up right before
    began = time.monotonic()
    close_all()
    assert time.monotonic() - began < 60


def test_a_second_time_is_for_nothing(opened, said):
    opened("one")
    close_all()
    close_all()
    assert said == ["one closed"]


def test_a_standstill_takes_nobody_their_time(opened, said, patience, monkeypatch):
    """Each wait is late; by the wall clock the time would be over after the first."""
    patience(0.2, 0.4)
    ending = opened("one", lambda: time.sleep(1.2))
    wait = ending.ended.wait
    monkeypatch.setattr(ending.ended, "wait", lambda seconds: wait(seconds + 0.6))
    close_all()
    assert said == ["one closed"]


def test_a_fork_has_nothing_open(opened):
    opened("one")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"%d" % len(at_exit._OPEN))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b"0"
    assert len(at_exit._OPEN) == 1
