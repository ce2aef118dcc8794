"""The most frequent keys: what the bounds promise, against exact counts."""

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from orderly.monitoring.skew.sketch import TopCounts

STREAMS = st.lists(st.integers(0, 30), max_size=300)


def counted(stream, capacity):
    counts = TopCounts(capacity)
    for key in stream:
        counts.add(key)
    return counts


@given(STREAMS, st.integers(1, 40))
@example([1, 2, 3, 1, 4], 2)
def test_the_true_count_is_within_the_bounds(stream, capacity):
    exact = Counter(stream)
    counts = counted(stream, capacity)
    for found in counts.top(capacity):
        assert found.least <= exact[found.key] <= found.most
        assert found.most - found.least <= len(stream) / capacity


@given(STREAMS, st.integers(1, 40))
def test_what_came_more_often_than_the_error_is_never_missing(stream, capacity):
    counts = counted(stream, capacity)
    for key, count in Counter(stream).items():
        assert key in counts or count <= len(stream) / capacity


@given(STREAMS, st.integers(1, 40))
def test_it_is_exact_exactly_while_all_keys_have_room(stream, capacity):
    exact = Counter(stream)
    counts = counted(stream, capacity)
    assert counts.exact == (len(exact) <= capacity)
    if counts.exact:
        assert {found.key: found.least for found in counts.top(99)} == exact
        assert all(found.least == found.most for found in counts.top(99))


@given(STREAMS, st.integers(1, 10))
def test_the_largest_are_first_and_nothing_is_lost(stream, capacity):
    counts = counted(stream, capacity)
    most = [found.most for found in counts.top(capacity)]
    assert most == sorted(most, reverse=True)
    assert sum(most) == counts.total == len(stream)
    assert counts.top(2) == counts.top(capacity)[:2]


@given(STREAMS, st.integers(1, 10))
def test_who_makes_room_is_told(stream, capacity):
    counts, there = TopCounts(capacity), set()
    for key in stream:
        gone = counts.add(key)
        there = (there - {gone}) | {key}
        assert {found.key for found in counts.top(capacity)} == there
        assert len(counts) == len(there) <= capacity


def test_ever_new_keys_need_no_more_room_than_a_few():
    counts = counted(range(10_000), 10)
    tables = (counts._counts, counts._errors, counts._by_count)
    assert max(map(len, tables)) <= 10
    assert sum(map(len, counts._by_count.values())) == 10
