"""How far a broker's clock is from ours, from what it tells of its running."""

import pytest

from orderly.cli.doctor.cluster import ServerAnswer, difference

NOW = 1_700_000_000.0
RAN = "[ 2 days, 1 hours, 1 minutes, 1 seconds ]"
BOOTED = NOW - 2 * 86400 - 3600 - 61


def read(booted, *, runtime=RAN, took=0.0):
    table = {"bootTimestamp": str(int(booted * 1000)), "runtime": runtime}
    return difference(table, ServerAnswer(513, b"", None, NOW, NOW + took))


def test_the_same_time_is_within_the_doubt_of_whole_seconds():
    found = read(BOOTED)
    assert (found.seconds, found.doubt, found.matters) == (0.5, 0.5, False)
    assert str(found) == "the same, within 0.5 s"


@pytest.mark.parametrize(
    ("by", "text"), [(10.5, "11s ahead, within 0.5 s"), (-90.5, "1m30s behind, within 0.5 s")]
)
def test_a_clock_that_is_off(by, text):
    found = read(BOOTED + by)
    assert found.matters
    assert str(found) == text


def test_a_slow_answer_makes_it_less_certain_and_accuses_nobody():
    found = read(BOOTED + 5, took=10.0)
    assert (found.doubt, found.matters) == (5.5, False)


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"bootTimestamp": "1"},
        {"bootTimestamp": None, "runtime": RAN},
        {"bootTimestamp": "soon", "runtime": RAN},
        {"bootTimestamp": "9" * 400, "runtime": RAN},
        {"bootTimestamp": "1", "runtime": "[ " + "9" * 400 + " days ]"},
        {"bootTimestamp": "1", "runtime": ["a", "list"]},
    ],
)
def test_what_is_no_time_is_none(table):
    assert difference(table, ServerAnswer(513, b"", None, NOW, NOW)) is None
