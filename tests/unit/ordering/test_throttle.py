"""While most keys fail, those that have not failed are tried; in the long run one a second."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.throttle import AT_ONCE, EACH, Throttle

LONGEST = 60.0


def turned_on(now=0.0):
    throttle = Throttle(LONGEST)
    throttle.turn_on(now)
    return throttle


def let_through(throttle, now, count):
    """How many of so many keys that ask at once are tried."""
    return [throttle.admit(now) for _ in range(count)].count(0.0)


def used_up(now=0.0):
    throttle = turned_on(now)
    while throttle.admit(now) == 0.0:
        pass
    return throttle


def test_off_it_holds_nobody():
    throttle = Throttle(LONGEST)
    assert let_through(throttle, 1.0, 2 * AT_ONCE) == 2 * AT_ONCE
    throttle.turn_on(2.0)
    let_through(throttle, 2.0, 2 * AT_ONCE)
    throttle.turn_off(3.0)
    assert let_through(throttle, 3.0, 2 * AT_ONCE) == 2 * AT_ONCE
    assert (throttle.since, throttle.off_since, throttle.holds) == (None, 3.0, False)


def test_it_knows_since_when_it_is_on_and_whether_it_held_anybody():
    throttle = turned_on(5.0)
    throttle.turn_on(6.0)
    assert (throttle.since, throttle.holds) == (5.0, False)
    let_through(throttle, 6.0, 2 * AT_ONCE)
    assert throttle.holds
    throttle.turn_off(7.0)
    throttle.turn_off(8.0)
    assert throttle.off_since == 7.0


@pytest.mark.parametrize("later", [0.0, 100.0, 366 * 86_400.0])
def test_as_many_as_are_remembered_are_tried_at_once_however_long_it_is_on(later):
    assert let_through(turned_on(), later, 2 * AT_ONCE) == AT_ONCE


def test_then_one_is_tried_each_second():
    throttle = used_up()
    assert [let_through(throttle, n / 2, 10) for n in range(1, 7)] == [0, 1, 0, 1, 0, 1]
    assert let_through(throttle, 103.0, 200) == 100, "what nobody used is kept"


@given(st.lists(st.tuples(st.floats(0, 2_000), st.integers(1, 4_000)), max_size=20))
def test_no_run_of_asks_is_let_through_faster_than_that(asks):
    throttle, now, tried = turned_on(), 0.0, 0
    for seconds, count in asks:
        now += seconds
        waits = [throttle.admit(now) for _ in range(count)]
        assert all(0.0 <= wait <= LONGEST for wait in waits)
        tried += waits.count(0.0)
        assert tried <= AT_ONCE + now / EACH + 1


@given(st.floats(0, 1e6), st.integers(1, 2 * AT_ONCE))
def test_somebody_is_tried_each_second_whoever_asks(begin, asks):
    throttle = turned_on()
    let_through(throttle, begin, asks)
    assert throttle.admit(begin + EACH) == 0.0


@pytest.mark.parametrize("waiting", [10, 2_000])
def test_keys_that_wait_are_tried_and_one_that_comes_now_is_not_behind_them_all(waiting):
    """They ask when they were told to; four keys a second come besides."""
    throttle, end = used_up(), 600.0
    asks = [(throttle.admit(0.0), "waits", n) for n in range(waiting)]
    asks += [(500.0 + n / 4, "new", n) for n in range(80)]
    heapq.heapify(asks)
    tried, now = {"waits": [], "new": []}, 0.0
    while asks and now < end:
        now, kind, number = heapq.heappop(asks)
        wait = throttle.admit(now)
        if wait:
            heapq.heappush(asks, (now + wait, "waits", number))
        else:
            tried[kind].append(now)
    assert len([at for at in tried["waits"] if at <= 60.0]) >= min(waiting, 25)
    assert tried["new"][0] < 520.0
    assert sum(map(len, tried.values())) >= min(waiting + 80, 0.9 * end)


def test_a_place_that_was_not_used_is_the_next_ones():
    throttle = used_up()
    assert let_through(throttle, 1.0, 5) == 1
    throttle.untried()
    assert let_through(throttle, 1.0, 5) == 1
    throttle.turn_off(2.0)
    throttle.untried()
    assert let_through(throttle, 2.0, 5) == 5
