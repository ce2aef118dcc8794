"""Who makes room for whom, without a socket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.remoting.places import Limits, Places, Stage

LIMITS = Limits(at_once=3, per_peer=2, asking=5.0, answering=30.0)
FOREVER = float("inf")


@pytest.fixture
def places():
    return Places(LIMITS)


def fill(places, *peers):
    """One connection of each, named by its number."""
    for number, peer in enumerate(peers):
        assert places.admit(number, peer, 0.0) == []


def test_an_address_that_has_all_of_its_places_makes_room_by_its_oldest(places):
    fill(places, "other", "here", "here")
    assert places.admit("new", "here", 1.0) == [1]


def test_without_any_place_the_oldest_of_all_makes_room(places):
    fill(places, "a", "b", "c")
    assert places.admit("new", "d", 1.0) == [0]


def test_who_has_not_asked_goes_before_who_reads_and_who_waits_for_an_answer_stays(places):
    fill(places, "a", "b", "c")
    places.enter(0, Stage.WORKING, 0.0)
    places.enter(1, Stage.READING, 0.0)
    assert places.admit("first", "d", 1.0) == [2]
    places.enter("first", Stage.WORKING, 1.0)
    assert places.admit("second", "e", 1.0) == [1]
    places.enter("second", Stage.WORKING, 1.0)
    assert places.admit("third", "f", 1.0) is None


@pytest.mark.parametrize(
    ("stage", "until"), [(None, 5.0), (Stage.WORKING, FOREVER), (Stage.READING, 31.0)]
)
def test_each_stage_has_its_time(places, stage, until):
    fill(places, "a")
    if stage is not None:
        assert places.enter(0, stage, 1.0)
    assert places.late(min(until, 1e9) - 0.1) == []
    assert places.late(until) == [0]


def test_who_lost_the_place_does_not_get_it_back(places):
    fill(places, "a", "a")
    assert places.admit("new", "a", 1.0) == [0]
    assert not places.enter(0, Stage.WORKING, 1.0)
    places.leave(0)
    assert places.late(FOREVER) == [1, "new"]


STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, *Stage])), max_size=40)


@given(STEPS)
def test_there_are_never_more_than_the_limits_and_who_is_at_work_stays(steps):
    places, here = Places(LIMITS), {}
    for number, (peer, stage) in enumerate(steps):
        left = places.admit(number, peer, 0.0)
        if left is None:
            at_work = [each for each, now in here.values() if now is Stage.WORKING]
            assert len(at_work) == LIMITS.at_once or at_work.count(peer) == LIMITS.per_peer
            continue
        for each in left:
            assert here.pop(each)[1] is not Stage.WORKING
        here[number] = (peer, stage)
        if stage is not None:
            assert places.enter(number, stage, 0.0)
        peers = [each for each, _ in here.values()]
        assert len(peers) <= LIMITS.at_once
        assert all(peers.count(each) <= LIMITS.per_peer for each in peers)
    assert places.late(FOREVER) == list(here)
