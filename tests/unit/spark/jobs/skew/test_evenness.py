from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.jobs.skew.evenness import bound, concentration, gini, pinned

sizes = st.lists(st.integers(1, 50), min_size=1, max_size=30)


@given(sizes)
def test_gini_is_the_mean_difference_over_twice_the_mean(each):
    apart = sum(abs(one - other) for one, other in product(each, each))
    assert gini(Counter(each)) == pytest.approx(apart / (2 * len(each) * sum(each)), abs=1e-12)


def test_gini_of_no_key_is_not_known():
    assert gini({}) is None


@given(sizes)
def test_the_curve_rises_from_nothing_to_all_and_bends_down(each):
    points = concentration(Counter(each))
    assert points[0] == (0.0, 0.0)
    assert points[-1] == pytest.approx((1.0, 1.0))
    assert points == sorted(points)
    assert all(messages >= keys - 1e-9 for keys, messages in points)


def test_the_curve_of_millions_of_keys_has_few_points():
    points = concentration({size: 1_000_000 // size for size in range(1, 50_000)})
    assert len(points) < 450
    assert points[-1] == pytest.approx((1.0, 1.0))


@given(sizes, st.integers(1, 8))
def test_no_placing_of_keys_beats_the_bound(each, queues):
    keys = sorted(each, reverse=True)
    assert pinned([0] * queues, keys) >= bound(keys[0] / sum(keys), queues) - 1e-9


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 4))
def test_pinning_all_keys_comes_close_to_the_best_there_is(each, queues):
    keys = sorted(each, reverse=True)
    every = product(range(queues), repeat=len(keys))
    best = min(max(_loads(keys, places, queues)) for places in every)
    found = pinned([0] * queues, keys) * sum(keys) / queues
    assert best - 1e-9 <= found <= best * 4 / 3 + 1e-9  # Graham 1969


def _loads(keys, places, queues):
    loads = [0] * queues
    for key, place in zip(keys, places, strict=True):
        loads[place] += key
    return loads


def test_pinning_leaves_the_rest_where_it_is():
    assert pinned([10, 0], [6, 4]) == pytest.approx(1.0)
    assert pinned([0, 0], [9, 1]) == pytest.approx(1.8)
    assert pinned([0, 0], []) is None
