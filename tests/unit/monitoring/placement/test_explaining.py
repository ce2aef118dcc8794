"""Who placed keys is found by trying, and never named by chance."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import Message
from orderly.monitoring.placement.explaining import chance, explain
from orderly.monitoring.placement.sightings import Sighting
from orderly.monitoring.skew.what_if import queues_if
from orderly.selectors import KEYED, parse_layout, queues_of

LAYOUT = parse_layout("broker-a:6;broker-b:6")
MESSAGE = Message("T", b"x")
NAMES = [f"order-{number}" for number in range(60)]


def placed(name, keys, queues=12, layout=LAYOUT):
    rule, among = KEYED[name], queues_if(layout, "T", queues)
    return [
        Sighting(key, rule.selector(among, MESSAGE, rule.given(key)), 1, 0.0, 0.0) for key in keys
    ]


def names(found):
    return [(each.selectors, each.queues, len(each.seen)) for each in found]


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("count", [3, 16])
def test_the_selector_that_placed_all_keys_is_named(name, count):
    layout = parse_layout(f"broker-a:{count}")
    keys = [str(number * 7919) for number in range(1000, 1050)]
    found, rest = explain(layout, "T", placed(name, keys, count, layout))
    assert names(found) == [((name,), count, 50)]
    assert rest == []


@pytest.mark.parametrize("other", ["proxy_hash", "cpp_hash_mod", "go_hash_mod"])
def test_two_kinds_of_producers_are_told_apart(other):
    found, rest = explain(LAYOUT, "T", placed("hash_mod", NAMES[:40]) + placed(other, NAMES[40:]))
    assert [each.selectors for each in found] == [("hash_mod",), (other,)]
    assert len(found[0].seen) >= 40
    assert rest == []


def test_what_lies_as_before_the_topic_grew_is_explained_by_the_former_number():
    seen = placed("hash_mod", NAMES[:40]) + placed("hash_mod", NAMES, 8)
    found, rest = explain(LAYOUT, "T", seen)
    assert [(each.selectors, each.queues) for each in found] == [(("hash_mod",), 12),
                                                                  (("hash_mod",), 8)]  # fmt: skip
    assert rest == []


def test_selectors_that_agree_on_all_keys_are_both_told():
    layout = parse_layout("broker-a:4")
    digits = [str(number) for number in range(10)]  # of "0" the hash is 48, a multiple of 4
    found, _ = explain(layout, "T", placed("hash_mod", digits, 4, layout))
    assert [each.selectors for each in found] == [("hash_mod", "numeric_mod")]


@given(st.integers(0, 10_000), st.integers(2, 32), st.integers(1, 80))
def test_chance_explains_nothing(seed, count, keys):
    pick = random.Random(seed)
    layout = parse_layout(f"broker-a:{count}")
    queues = queues_of(layout, "T")
    seen = [Sighting(f"k{seed}-{n}", pick.choice(queues), 1, 0.0, 0.0) for n in range(keys)]
    found, rest = explain(layout, "T", seen)
    if found:  # about one sample in ten thousand
        assert chance(len(found[0].seen), keys, count) <= 1e-4
    else:
        assert rest == seen


def test_a_few_keys_and_a_single_queue_tell_nothing():
    assert explain(LAYOUT, "T", placed("hash_mod", NAMES[:3]))[0] == []
    one = parse_layout("broker-a:1")
    assert explain(one, "T", placed("hash_mod", NAMES, 1, one))[0] == []
    assert explain(LAYOUT, "T", []) == ([], [])


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 20))
def test_the_bound_of_chance_is_never_below_the_exact_tail(right, more, queues):
    tries, p = right + more - 1, 1 / queues
    tail = sum(
        math.comb(tries, hits) * p**hits * (1 - p) ** (tries - hits)
        for hits in range(right, tries + 1)
    )
    assert chance(right, tries, queues) >= tail * (1 - 1e-9)
    assert chance(tries, tries, queues) == pytest.approx(p**tries)
