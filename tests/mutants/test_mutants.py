"""`make mutants`: what it draws is reproducible, and what it counts is what was noticed."""

from types import SimpleNamespace

import pytest

from tests.mutants.__main__ import NOBODY, SIMULATION, UNIT, _as_text, draw, interval

NAMES = [f"orderly.ordering.lanes.x_take__mutmut_{number}" for number in range(500)]


def test_a_seed_draws_the_same_sample_in_whatever_order_mutants_are_listed():
    sample = draw(NAMES, 20, seed=7)
    assert draw(NAMES[::-1], 20, seed=7) == sample
    assert len(set(sample)) == 20
    assert draw(NAMES, 20, seed=8) != sample


def test_a_sample_is_at_most_all_there_is():
    assert draw(NAMES[:3], 20, seed=7) == sorted(NAMES[:3])


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(187, 209, 0.845, 0.930), (10, 10, 0.722, 1.0)]
)
def test_what_the_sample_says_of_all(hits, count, low, high):
    assert interval(hits, count) == pytest.approx((low, high), abs=0.001)


def test_the_score_counts_what_anybody_noticed_and_names_the_rest():
    found = dict(zip(NAMES, (UNIT, UNIT, SIMULATION, NOBODY), strict=False))
    text = _as_text(found, 500, 1, SimpleNamespace(seed=7, seeds=100))
    assert "4 of 500 mutants, seed 7" in text
    assert "score 75.0%" in text
    assert [line for line in text.splitlines() if "mutmut show" in line] == [
        f"  mutmut show {NAMES[3]}"
    ]
