"""Advice: what is said for which skew, and that nothing is said that the figures do not carry."""

import pytest

from orderly.monitoring.skew.advice import advice, percent
from orderly.monitoring.skew.inflow import Basis, Inflow
from orderly.monitoring.skew.keys import KeyTally
from orderly.selectors import hash_mod, parse_layout, queues_of

LAYOUT = parse_layout("broker-a:8")
QUEUES = queues_of(LAYOUT, "T")
EVEN = Inflow(Basis.STORED, None, dict.fromkeys(QUEUES, 100))
MANY = [f"order-{number}" for number in range(4000)]
COLLIDING = [key for key in MANY if hash_mod(QUEUES, None, key).queue_id == 0]


def said(keys, order="", what_if=(16,), place=hash_mod, inflow=EVEN):
    tally = KeyTally(LAYOUT, "T", what_if)
    for key in keys:
        tally.add(key, QUEUES[0] if key is None else place(QUEUES, None, key))
    return advice(inflow, tally.result(), order, lambda key: f"<{key}>")


def test_one_hot_key():
    told = said(["hot"] * 2000 + MANY[:2000])
    assert told[0].startswith(
        "Key <hot> alone has 50 % of the messages, more than 1/8. Its queue gets at least that with"
        " any number of queues (4.0 times the mean of 8), so more queues do not help"
    )
    assert "finer key" in told[1]
    assert 'order="key" helps the other keys' in told[2]
    assert len(told) == 3


def test_hot_keys_that_share_a_queue_are_parted_by_more_queues_down_to_the_hottest():
    pair = next(
        (a, b)
        for a in COLLIDING
        for b in COLLIDING
        if hash_mod(range(16), None, a) == 0 and hash_mod(range(16), None, b) == 8
    )
    told = said([pair[0]] * 800 + [pair[1]] * 700 + MANY[:2000])
    assert "more queues help only down to that: with 16 queues the busiest would get" in told[0]


def test_a_group_that_orders_by_key_is_not_told_to_do_so():
    told = " ".join(said(["hot"] * 2000 + MANY[:2000], order="key"))
    assert 'The group has order="key": other keys do not wait' in told
    assert "helps the other keys" not in told


def test_many_keys_that_fall_into_one_queue_by_chance():
    told = said(COLLIDING * 2)
    assert told[0].startswith(
        "No key is too large for a queue, but the keys fall unevenly: with 16 queues the busiest"
    )
    assert "stop the producers" in told[0]
    assert 'order="key" helps' in told[1]


def test_no_number_that_helps_is_no_advice_to_change_it():
    told = said(COLLIDING, what_if=(4,))
    assert "none of the numbers of queues tried here brings much" in told[0]


def test_a_busy_queue_without_a_busy_key_is_told_by_the_inflow():
    inflow = Inflow(Basis.MEASURED, 5.0, dict.fromkeys(QUEUES, 10) | {QUEUES[3]: 900})
    assert "nothing to do" not in " ".join(said(MANY, inflow=inflow))


def test_even_keys_need_nothing():
    assert said(MANY) == ("No key and no queue stands out; there is nothing to do.",)


def test_few_keys_are_named_as_the_reason():
    few = [MANY[number] for number in range(9)]
    told = said([key for key in few for _ in range(100)], inflow=_lopsided())
    assert told[0] == (
        "There are only 9 keys for 8 queues: so few fall unevenly, and a queue without a key stays"
        " empty."
    )


def _lopsided():
    return Inflow(Basis.STORED, None, dict.fromkeys(QUEUES, 1) | {QUEUES[0]: 500})


def test_without_keys_nothing_is_said_of_keys():
    (told,) = said([None] * 500)
    assert told.startswith("No message that was read has a sharding key")
    assert said([]) == ("No message could be read: there is nothing to judge keys by.",)


def test_some_without_a_key_are_told_apart():
    assert said([None] * 1000 + MANY)[0].startswith("20 % of the messages have no sharding key")


def test_a_small_sample_is_called_small():
    (told,) = said(["hot"] * 99)
    assert told.startswith("99 messages with a key are too few")
    told = said(MANY[:300], what_if=(64,))
    assert told[0].startswith("300 messages are few for 64 queues")
    assert "--sample 3200" in told[0]


@pytest.mark.parametrize("times", [29, 30])
def test_a_key_is_not_hot_by_chance(times):
    """In 200 messages over 8 queues a fair share is 25."""
    told = " ".join(said(["hot"] * times + MANY[: 200 - times], what_if=()))
    assert "alone has" not in told
    told = " ".join(said(["hot"] * 31 + MANY[:169], what_if=()))
    assert "alone has" in told


def test_another_selector_is_told():
    told = said(MANY, place=lambda queues, _, key: queues[len(key) % 8])
    assert "do not lie where hash_mod puts them with 8 queues" in told[0]


def test_a_key_in_several_queues_is_told_first():
    tally = KeyTally(LAYOUT, "T")
    for key in MANY:
        tally.add(key, hash_mod(QUEUES, None, key))
    tally.add("x", QUEUES[0])
    tally.add("x", QUEUES[1])
    told = advice(EVEN, tally.result(), "", lambda key: f"<{key}>")
    assert told[0].startswith("1 key, <x> for one, was found in several queues")


def test_percent():
    shares = {0.5: "50 %", 0.1: "10 %", 0.034: "3.4 %", 0.0004: "0.04 %", 0: "0 %", 1: "100 %"}
    assert {share: percent(share) for share in shares} == shares
