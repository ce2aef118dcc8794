"""Limits of what is parked, for one queue and for the keys of one member."""

import pytest

from orderly.errors import ConfigError
from orderly.ordering.parking.keys import Kept, ParkedKey, ParkedKeys
from orderly.ordering.parking.limits import ParkLimits, limit_reached
from orderly.ordering.parking.ratio import FREE, WINDOW, KeyRatio

LIMITS = ParkLimits(keys=2, messages=10, size=1000)


@pytest.fixture
def parking():
    return ParkedKeys(Kept((ParkedKey("a", 1, 1, 4, 400), ParkedKey("b", 2, 2, 4, 400))))


def test_within_the_limits_nothing_is_refused(parking):
    assert limit_reached(LIMITS, parking, "a", messages=2, size=200) is None


@pytest.mark.parametrize(
    ("key", "messages", "size", "why"),
    [
        ("c", 1, 1, "2 keys of the queue are parked"),
        ("a", 3, 1, "8 messages of the queue are parked, 3 more"),
        ("a", 1, 201, "800 bytes of the queue are parked, 201 more"),
    ],
)
def test_at_a_limit_it_says_why(parking, key, messages, size, why):
    assert why in limit_reached(LIMITS, parking, key, messages, size)


def test_a_queues_share_is_rounded_up():
    assert ParkLimits(keys=1000, messages=9, size=8).share(8) == ParkLimits(125, 2, 1)
    assert ParkLimits(keys=3).share(8).keys == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": 0}, {"keys": 10_001}, {"keys": True}, {"messages": 0}, {"size": 1.5},
        {"ratio": 0}, {"ratio": 1.1}, {"ratio": float("nan")}, {"ratio": "half"}, {"ratio": True},
    ],
    ids=repr,
)  # fmt: skip
def test_limits_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"ParkLimits' {next(iter(wrong))}"):
        ParkLimits(**wrong)


# --- the part of the keys seen lately ------------------------------------------------------------


def seen(ratio, count, now=0.0):
    keys = KeyRatio(ratio)
    for number in range(count):
        keys.saw(number, now)
    return keys


def park(keys, count, now=0.0):
    """Park the first `count` keys as far as that is allowed; returns how many were."""
    parked = 0
    for number in range(count):
        if keys.refuses(number, now) is None:
            keys.parks(number, now)
            parked += 1
    return parked


def test_a_few_keys_may_be_parked_whatever_was_seen():
    assert park(seen(0.5, FREE), FREE) == FREE


def test_beyond_that_only_a_part_of_the_keys_seen():
    assert park(seen(0.5, 40), 40) == 20


def test_a_limit_of_all_is_none():
    assert park(seen(1.0, 30), 30) == 30


def test_it_says_why():
    keys = seen(0.5, 10)
    park(keys, 5)
    assert "5 of 10 keys of the last 5 minutes are parked" in keys.refuses(9, 0.0)


def test_a_key_that_is_parked_already_is_not_counted_twice():
    keys = seen(0.5, 12)
    park(keys, 6)
    assert keys.refuses(5, 0.0) is None
    assert keys.refuses(6, 0.0) is not None


def test_what_is_older_than_the_window_does_not_count():
    keys = seen(0.5, 100)
    park(keys, 50)
    assert keys.refuses(60, WINDOW - 1) is not None
    assert keys.refuses(60, WINDOW) is None


def test_keys_seen_again_stay_in_the_window():
    keys = seen(0.5, 100)
    park(keys, 6)
    for number in range(100):
        keys.saw(number, WINDOW / 2)
    for number in range(6):
        keys.parks(number, WINDOW / 2)
    assert keys.refuses(60, WINDOW) is None, "6 of 100"


def test_memory_is_bounded():
    keys = seen(0.5, 30_000)
    assert len(keys._seen) == 10_000
