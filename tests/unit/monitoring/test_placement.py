"""Who placed keys is found by trying, and never named by chance."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.message import Message
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.placement import Sighting, Sightings, chance, explain, judge, queues_if
from orderly.selectors import KEYED, parse_layout, queues_of

ONE, TWO = MessageQueue("T", "a", 1), MessageQueue("T", "a", 2)


def seen(*messages):
    found = Sightings()
    for message in messages:
        found.add(*message)
    return found


def test_a_key_in_a_queue_is_one_sighting_with_its_first_and_last_time():
    found = seen(("k", ONE, 5.0), ("k", ONE, 3.0), ("k", ONE, 4.0), (None, ONE, 1.0))
    assert list(found) == [Sighting("k", ONE, 3, 3.0, 5.0)]
    assert (found.messages, found.keyless, found.keys) == (4, 1, 1)
    assert found.split() == []


def test_keys_in_several_queues_come_most_frequent_first_and_each_as_it_came_by():
    found = seen(
        ("rare", ONE, 1.0), ("rare", TWO, 2.0), ("whole", ONE, 1.0),
        ("often", TWO, 9.0), ("often", ONE, 8.0), ("often", ONE, 8.5),
    )  # fmt: skip
    assert [[(it.key, it.queue, it.messages) for it in key] for key in found.split()] == [
        [("often", ONE, 2), ("often", TWO, 1)],
        [("rare", ONE, 1), ("rare", TWO, 1)],
    ]


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


@given(st.integers(1, 100))
def test_queues_are_spread_over_the_same_brokers(number):
    layout = parse_layout("broker-a:3;broker-b:1")
    queues = queues_if(layout, "T", number)
    assert len(set(queues)) == number
    counts = Counter(queue.broker_name for queue in queues)
    if number != 4:
        assert max(counts.values()) - min(counts["broker-a"], counts["broker-b"]) <= 1
    else:
        assert queues == queues_of(layout, "T"), "as they are"


TWO_QUEUES = parse_layout("broker-a:8")
QUEUES = queues_of(TWO_QUEUES, "T")
KEYS = [f"order-{number}" for number in range(50)]


def judged(*parts, keyless=0, layout=TWO_QUEUES):
    """Each part: the selector's name (None: by hand, all into the first queue), and keys."""
    seen = Sightings()
    for name, keys in parts:
        for key in keys:
            queue = (
                QUEUES[0] if name is None else KEYED[name].selector(QUEUES, Message("T", b"-"), key)
            )
            seen.add(key, queue, 0.0)
    for _ in range(keyless):
        seen.add(None, QUEUES[0], 0.0)
    return judge(layout, "T", seen)


def said(found):
    return " ".join(found.say())


def test_all_by_one_selector_is_fine():
    found = judged(("go_hash_mod", KEYS))
    assert (found.verdict, found.mixed) == (Verdict.OK, False)
    assert "Each of 50 keys was seen in one queue." in said(found)
    assert "All keys are where go_hash_mod (Go's NewHashQueueSelector) puts them." in said(found)


def test_a_key_in_two_queues_is_a_finding_and_each_place_has_its_selector():
    found = judged(("hash_mod", KEYS), ("cpp_hash_mod", KEYS))
    assert found.verdict is Verdict.WARNING
    both = {rules for key in found.split for seen in key for rules in [found.rules_of(seen)]}
    assert both == {("hash_mod",), ("cpp_hash_mod",)}
    assert f"{len(found.split)} keys of 50 were seen in several queues" in said(found)
    assert "hash_mod (Java's SelectMessageQueueByHash; the default here) explains 50" in said(found)


def test_two_placements_are_a_finding_before_a_key_is_split():
    found = judged(("hash_mod", KEYS[:25]), ("proxy_hash", KEYS[25:]))
    assert (found.split, found.verdict) == ((), Verdict.WARNING)
    assert "Producers place keys in different ways" in said(found)


def test_strays_are_told_beside_what_is_explained():
    found = judged(("hash_mod", KEYS), (None, ["stray-a", "stray-b"]))
    assert found.verdict is Verdict.WARNING
    assert {seen.key for seen in found.unexplained} == {"stray-a", "stray-b"}
    assert all(found.rules_of(seen) == () for seen in found.unexplained)
    assert "and nothing known 2" in said(found)


def test_a_selector_of_the_producers_own_is_no_finding():
    found = judged((None, KEYS))
    assert found.verdict is Verdict.OK
    assert "No known selector explains where they are" in said(found)


def test_a_selector_that_fits_all_of_too_few_keys_is_named():
    found = judged(("hash_mod", KEYS[:3]))
    assert (found.explained, found.fitting, found.verdict) == ((), ("hash_mod",), Verdict.OK)
    assert (
        "hash_mod (Java's SelectMessageQueueByHash; the default here) puts all of them there, which"
        " can be chance: 3 keys are too few to be sure."
    ) in said(found)
    assert "No known selector" not in said(found)


def test_a_key_that_no_selector_puts_there_fits_none():
    found = judged(("hash_mod", KEYS[:3]), (None, ["stray"]))
    assert found.fitting == ()
    assert "No known selector explains where they are" in said(found)


def test_nothing_can_be_said_without_keys():
    found = judged(keyless=3)
    assert found.verdict is Verdict.UNKNOWN
    assert said(found).startswith("None of 3 messages that could be read has a sharding key")
    some = judged(("hash_mod", KEYS), keyless=1)
    assert "1 message of 51 without a sharding key left out" in said(some)


def test_a_single_queue_has_nothing_to_tell():
    found = judged((None, KEYS), layout=parse_layout("broker-a:1"))
    assert found.verdict is Verdict.OK
    assert "The topic has one queue" in said(found)


def test_what_lies_as_before_the_topic_grew_is_told_so():
    grown = parse_layout("broker-a:12")
    seen = Sightings()
    for layout in (TWO_QUEUES, grown):
        for key in KEYS:
            queue = KEYED["hash_mod"].selector(queues_of(layout, "T"), Message("T", b"-"), key)
            seen.add(key, queue, 0.0)
    found = judge(grown, "T", seen)
    assert {each.queues for each in found.explained} == {12, 8}
    assert "with 8 queues as before" in said(found)
