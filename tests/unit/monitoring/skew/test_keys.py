"""Key skew of a sample: shares, what lies in several queues, which selector is at work."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.skew.keys import KeyTally
from orderly.selectors import KEYED, hash_mod, parse_layout, queues_of

LAYOUT = parse_layout("broker-a:4")
QUEUES = queues_of(LAYOUT, "T")


def tallied(keys, place=hash_mod, what_if=(), counters=10_000):
    tally = KeyTally(LAYOUT, "T", what_if, counters)
    for key in keys:
        queue = QUEUES[0] if key is None else place(QUEUES, None, key)
        tally.add(None if key is None else str(key), queue)
    return tally.result()


def test_shares_are_of_the_messages_with_a_key():
    found = tallied(["a"] * 6 + ["b"] * 2 + [None] * 92)
    assert (found.messages, found.keyless, found.keyed, found.keys) == (100, 92, 8, 2)
    assert [(key.key, key.least, key.most) for key in found.top] == [("a", 6, 6), ("b", 2, 2)]
    assert found.least_share == 0.75


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=2), min_size=1), st.integers(1, 64))
def test_no_number_of_queues_brings_the_busiest_below_the_top_key(keys, number):
    found = tallied(keys, what_if=[number])
    for outcome in found.outcomes:
        assert outcome.skew.top_share >= found.least_share - 1e-9


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(1, 8))
def test_with_too_few_counters_the_bound_is_lower_and_still_true(keys, counters):
    found = tallied(keys, counters=counters)
    exact = Counter(keys)
    assert found.least_share <= max(exact.values()) / len(keys) + 1e-9
    assert (found.keys is None) == (len(exact) > counters)


def test_a_key_in_two_queues_is_told():
    tally = KeyTally(LAYOUT, "T")
    for queue in (QUEUES[1], QUEUES[1], QUEUES[2]):
        tally.add("both", queue)
    tally.add("one", QUEUES[3])
    found = tally.result()
    assert found.splits == 1
    assert [(key.key, key.split, key.queue) for key in found.top] == [
        ("both", True, QUEUES[1]),
        ("one", False, QUEUES[3]),
    ]


def test_a_key_that_made_room_is_not_told_as_split():
    tally = KeyTally(LAYOUT, "T", counters=1)
    tally.add("a", QUEUES[0])
    tally.add("a", QUEUES[1])
    tally.add("b", QUEUES[2])
    assert tally.result().splits == 0
    tally.add("a", QUEUES[3])
    assert tally.result().top[0].split is False


@pytest.mark.parametrize("place", [rule.selector for rule in KEYED.values()])
def test_the_selector_at_work_is_found(place):
    found = tallied(range(100), place, what_if=[16])
    assert found.present.selector == place.__name__
    assert (found.present.moved, found.present.queues) == (0.0, 4)
    told = {outcome.selector for outcome in found.outcomes}
    assert told == {"hash_mod", "numeric_mod", place.__name__}


def test_the_present_number_is_first_and_told_once():
    found = tallied(["a"], what_if=[16, 4, 2])
    assert [outcome.queues for outcome in found.outcomes] == [4, 2, 16]


def test_no_message_no_figures():
    found = tallied([])
    assert (found.keyed, found.keys, found.top, found.present, found.least_share) == (
        0, 0, (), None, 0.0,
    )  # fmt: skip
