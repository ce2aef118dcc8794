"""CPU time is booked to the phase a thread is in, and waiting is none."""

import threading
import time

import pytest

from orderly.bench import clock as clock_module
from orderly.bench.clock import PhaseClock
from orderly.bench.figures import Where


@pytest.fixture
def cpu(monkeypatch):
    """The CPU clock of the calling thread, to be set."""
    now = threading.local()
    now.value = 0.0
    monkeypatch.setattr(time, "thread_time", lambda: getattr(now, "value", 0.0))
    assert clock_module.time is time
    return now


def test_phases_follow_each_other_and_nest(cpu):
    clock = PhaseClock()
    assert clock.enter(Where.ENCODE) is None
    cpu.value = 2.0
    with clock.during(Where.HAND_OVER):
        cpu.value = 5.0
    cpu.value = 6.0
    assert clock.enter(None) is Where.ENCODE
    cpu.value = 100.0
    clock.enter(Where.ENCODE)
    assert clock.seconds() == {Where.ENCODE: 3.0, Where.HAND_OVER: 3.0}


def test_threads_have_phases_of_their_own(cpu):
    clock = PhaseClock()
    clock.enter(Where.ENCODE)

    def other():
        assert clock.enter(Where.DECODE) is None
        cpu.value = 7.0
        clock.enter(None)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    cpu.value = 1.0
    clock.enter(None)
    assert clock.seconds() == {Where.DECODE: 7.0, Where.ENCODE: 1.0}
