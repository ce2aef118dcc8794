"""While most keys fail, those that have not failed are tried; the longer it lasts, the fewer."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.throttle import HALVED, LEAST, MOST, Throttle

LONGEST = 60.0


def turned_on(now=0.0):
    throttle = Throttle(LONGEST)
    throttle.turn_on(now)
    return throttle


def let_through(throttle, now, count):
    """How many of so many keys that ask at once are tried."""
    return [throttle.admit(now) for _ in range(count)].count(0.0)


def test_off_it_holds_nobody():
    throttle = Throttle(LONGEST)
    assert let_through(throttle, 1.0, 10_000) == 10_000
    throttle.turn_on(2.0)
    let_through(throttle, 2.0, 10_000)
    throttle.turn_off(3.0)
    assert let_through(throttle, 3.0, 10_000) == 10_000
    assert (throttle.since, throttle.off_since, throttle.holds) == (None, 3.0, False)


def test_it_knows_since_when_it_is_on_and_whether_it_held_anybody():
    throttle = turned_on(5.0)
    throttle.turn_on(6.0)
    assert (throttle.since, throttle.holds) == (5.0, False)
    let_through(throttle, 6.0, 1_000)
    assert throttle.holds
    throttle.turn_off(7.0)
    throttle.turn_off(8.0)
    assert throttle.off_since == 7.0


@pytest.mark.parametrize("halvings", range(12))
def test_its_rate_halves_until_it_is_the_least(halvings):
    throttle, begin = turned_on(), halvings * HALVED
    tried = sum(let_through(throttle, begin + n / 1_000, 10) for n in range(1_000))
    rate = max(MOST / 2**halvings, LEAST)
    assert rate * 0.9 <= tried <= rate * 1.1 + 1


def test_a_year_later_one_is_tried_each_second():
    throttle, year = turned_on(), 366 * 86_400.0
    assert [let_through(throttle, year + n / 2, 10) for n in range(6)] == [1, 0, 1, 0, 1, 0]


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 400)), max_size=60))
def test_no_run_of_asks_is_let_through_faster_than_that(asks):
    throttle, now, tried = turned_on(), 0.0, 0
    for seconds, count in asks:
        now += seconds
        waits = [throttle.admit(now) for _ in range(count)]
        assert all(0.0 <= wait <= LONGEST for wait in waits)
        tried += waits.count(0.0)
        assert tried <= 102 + MOST * HALVED / 0.69 * (1 - 2 ** (-now / HALVED)) + LEAST * now


@given(st.floats(0, 1e6), st.integers(1, 1_000))
def test_somebody_is_tried_each_second_whoever_asks(begin, asks):
    throttle = turned_on()
    let_through(throttle, begin, asks)
    assert throttle.admit(begin + 1 / LEAST) == 0.0


def test_a_key_that_comes_now_is_not_behind_all_that_wait():
    """They ask when they were told to; it takes what they leave."""
    throttle, begin = turned_on(), 200.0
    line = [(begin + throttle.admit(begin), n) for n in range(1_000)]
    heapq.heapify(line)
    now = begin
    while now < begin + 30:
        now, number = heapq.heappop(line)
        wait = throttle.admit(now)
        if wait:
            heapq.heappush(line, (now + wait, number))
    assert 10 <= 1_000 - len(line) <= 20, "half of the rate is theirs"
    assert min(throttle.admit(now + n / 4) for n in range(1, 8)) == 0.0


def test_a_place_that_was_not_used_is_the_next_ones():
    throttle = turned_on()
    assert let_through(throttle, 500.0, 5) == 1
    throttle.untried(500.0)
    assert let_through(throttle, 500.0, 5) == 1
    throttle.turn_off(501.0)
    throttle.untried(501.0)
    assert let_through(throttle, 501.0, 5) == 5
