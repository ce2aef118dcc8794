"""Lost messages add up over snapshots, whatever is read in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.reading import DeadLetters
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.exporting.told import GroupTold, Lost
from tests.support.snapshots import AT, group, row, snapshot

UNREAD = None
PLACE = ("shipping", "orders")


def seen(*lost):
    """A snapshot with as many lost messages in each queue; UNREAD: nobody could tell."""
    rows = [
        row(QueueState.UNKNOWN, queue_id=n)
        if count is UNREAD
        else row(QueueState.LOST if count else QueueState.OK, queue_id=n, lost=count)
        for n, count in enumerate(lost)
    ]
    return snapshot(*rows)


def total(*snapshots):
    lost = Lost()
    for each in snapshots:
        lost = lost.after(each)
    return lost.totals.get(PLACE, 0)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([(0,), (0,)], 0),
        ([(5,)], 5),
        ([(5,), (5,), (8,)], 8),
        ([(5,), (0,), (3,)], 8),
        ([(5,), (UNREAD,), (5,)], 5),
        ([(5,), (UNREAD,), (7,)], 7),
        ([(5, 0), (0, 5)], 10),
        ([(5, 0), (5,)], 5),
    ],
    ids=["none", "at first", "more", "again", "unread", "unread, more", "two queues", "one goes"],
)
def test_what_is_lost_is_counted_once(history, expected):
    assert total(*(seen(*counts) for counts in history)) == expected


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(0, 9))] * 2), max_size=8))
def test_a_total_never_falls(history):
    totals = [total(*(seen(*c) for c in history[:n])) for n in range(len(history) + 1)]
    assert totals == sorted(totals)


def test_a_group_that_is_gone_is_forgotten():
    lost = Lost().after(seen(5)).after(snapshot(row(group="billing")))
    assert lost == Lost()


@pytest.mark.parametrize(
    ("dead", "age"),
    [
        (None, None),
        (DeadLetters(0, None, 4), None),
        (DeadLetters(2, AT - 90, 4), 90),
        (DeadLetters(2, AT + 3, 4), 0),  # by a broker whose clock is ahead
    ],
)
def test_the_age_of_dead_letters_is_known_or_none(dead, age):
    assert GroupTold(group(dead=dead), AT).dead_letters_age == age
