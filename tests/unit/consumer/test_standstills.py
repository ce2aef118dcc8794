"""What took long because the process stood still is not late."""

import pytest

from orderly.consumer import standstills
from orderly.consumer.standstills import Standstills


class Clock:
    def __init__(self):
        self.at = 1000.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(standstills, "now", clock)
    return clock


@pytest.fixture
def process(clock):
    return Standstills(1.0)


def runs(process, clock, seconds):
    for _ in range(seconds):
        clock.at += 1
        process.look()


def test_time_in_which_the_process_ran_counts(process, clock):
    runs(process, clock, 30)
    assert process.awake_since(1000.0) == 30


def test_a_look_that_is_somewhat_late_is_no_standstill(process, clock):
    for _ in range(10):
        clock.at += 1.9
        process.look()
    assert process.awake_since(1000.0) == pytest.approx(19)


@pytest.mark.parametrize("looked", [False, True])
def test_a_standstill_does_not_count_also_before_it_is_noticed(looked, process, clock):
    runs(process, clock, 5)
    clock.at += 60
    if looked:
        process.look()
    assert process.awake_since(1000.0) == pytest.approx(6, abs=1)
    runs(process, clock, 5)
    assert process.awake_since(1000.0) == pytest.approx(11, abs=1)


def test_what_began_after_it_is_as_old_as_it_is(process, clock):
    clock.at += 60
    process.look()
    begun = clock.at
    runs(process, clock, 5)
    assert process.awake_since(begun) == 5


def test_nothing_is_older_than_now(process, clock):
    clock.at += 60
    assert process.awake_since(clock.at) == 0


def test_what_never_happened_is_late_for_ever(process):
    assert process.awake_since(float("-inf")) == float("inf")


def test_of_many_standstills_the_last_ones_are_remembered(process, clock):
    for _ in range(1000):
        clock.at += 10
        process.look()
    begun = clock.at
    for _ in range(5):
        clock.at += 10
        process.look()
    assert process.awake_since(begun) == pytest.approx(5)
