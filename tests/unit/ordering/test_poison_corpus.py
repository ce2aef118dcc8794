"""The bars of `benchmarks.poison_corpus`, held on a part of it: virtual time, a seed."""

import pytest

from benchmarks.poison_corpus import PROBE, ControlGroup, NamedParked, judge, totals
from benchmarks.poison_scenarios import CORPUS

SCENARIOS = {scenario.name: scenario for group in CORPUS.values() for scenario in group}
BAD = [
    "bad payload", "bad payload, its class is named fatal", "error text changes each time",
    "endless recursion", "exception group of tasks", "three of a named class at once",
    "four different bad messages at once", "one key only: bad payload",
    "two keys: one bad payload", "bad payload during a partial outage of 30 %",
    "bad payload of a named class during a dead database",
    "twenty bodies that cannot be decoded at once",
    "bodies that cannot be decoded in a dead database",
]  # fmt: skip
OUTAGES = [
    "dead database from the start", "bad deploy fails everything, class named fatal",
    "bad deploy fails one kind of key, class named fatal", "partial outage, 60 %",
    "quota: 429 for 20 s of each minute", "dependency of one tenant down",
    "one key only: dead database, connection errors", "four keys: dead database", "slow start",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_each_bad_message_is_found_within_its_budget_and_no_other_is_parked(name):
    row = judge([SCENARIOS[name]], ControlGroup)[name]
    assert row["bad"] > 0
    assert (row["found"], row["wrong"]) == (row["bad"], 0)


@pytest.mark.parametrize("name", OUTAGES)
def test_no_outage_parks_more_than_the_probe_and_traffic_recovers(name):
    row = judge([SCENARIOS[name]], ControlGroup)[name]
    assert row["wrong"] <= PROBE
    assert row["handled"] > 0


def test_many_of_a_named_class_are_given_up_in_the_end_and_parked_at_once():
    name = "twenty of a named class at once"
    final, parked = (judge([SCENARIOS[name]], rule)[name] for rule in (ControlGroup, NamedParked))
    assert (
        (final["found_held"], final["wrong"]) == (parked["found_held"], parked["wrong"]) == (20, 0)
    )
    assert sorted(final["seconds"])[1] > 900.0
    assert max(parked["seconds"]) < 60.0


def test_if_everything_fails_a_class_that_is_named_for_parking_parks_one_message_in_five_minutes():
    name = "bad deploy fails everything, class named fatal"
    assert judge([SCENARIOS[name]], NamedParked)[name]["wrong"] == 2


def test_the_corpus_is_what_it_says():
    assert len(SCENARIOS) == sum(map(len, CORPUS.values())) >= 40


def test_a_total_counts_what_is_wrong_and_what_is_missed():
    row = {
        "bad": 2,
        "held": 0,
        "found": 1,
        "found_ever": 1,
        "found_held": 0,
        "wrong": 3,
        "outage": True,
    }
    total = totals([row | {"seconds": [60.0], "tries": [8]}])
    assert (total["precision"], total["recall"]) == (0.25, 0.5)
    assert total["most_parked_by_an_outage"] == 3
