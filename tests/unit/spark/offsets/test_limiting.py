from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.offsets.limiting import shares

WAITING = st.dictionaries(st.integers(0, 20), st.integers(0, 10**6), min_size=1)


@given(WAITING, st.integers(1, 10**6))
def test_the_limit_is_used_and_kept(waiting, limit):
    filled = sum(count > 0 for count in waiting.values())
    given_ = shares(waiting, limit)
    assert sum(given_.values()) == min(max(limit, filled), sum(waiting.values()))
    assert all(0 <= given_[queue] <= count for queue, count in waiting.items())


@given(WAITING, st.integers(1, 10**6))
def test_no_queue_with_messages_is_left_out(waiting, limit):
    given_ = shares(waiting, limit)
    assert all(given_[queue] > 0 for queue, count in waiting.items() if count)


@given(WAITING, st.integers(1, 10**6))
def test_more_waiting_is_never_given_less(waiting, limit):
    given_ = shares(waiting, limit)
    ranked = sorted(waiting, key=lambda queue: waiting[queue])
    sizes = [given_[queue] for queue in ranked]
    assert all(low <= high + 1 for low, high in pairwise(sizes))


def test_shares_are_in_proportion():
    assert shares({"a": 1000, "b": 3000, "c": 0}, 100) == {"a": 25, "b": 75, "c": 0}


def test_a_queue_that_shrank_gives_nothing():
    assert shares({"a": -5, "b": 3}, 10) == {"a": 0, "b": 3}
