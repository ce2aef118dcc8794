"""Messages that end the process of whoever handles them: who is suspect, who is blamed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.crashes import (
    MOST_SUSPECTS,
    NO_CRASHES,
    Crashes,
    Suspects,
    conclude,
    unclean_ends,
)
from orderly.ordering.owned_queue import Lease, OwnedQueue
from orderly.ordering.results import Disposition
from orderly.protocol.state_record import Acquire, Confirm, Entry, Trying
from tests.support.messages import QUEUE, message

# --- suspects -------------------------------------------------------------------------------------
# Which messages are looked at, and when an owner is through with them.


LOOP = Crashes(3, ((12, 1), (15, 2)))


@pytest.fixture
def suspects():
    """Of a queue of which 10 to 19 may be to blame."""
    return Suspects(LOOP, 10, 20)


def survive(suspects, *offsets):
    for offset in offsets:
        suspects.tries(offset)
        suspects.tries(None)


def test_in_normal_running_nothing_is_suspect():
    suspects = Suspects()
    assert not suspects.on
    assert not suspects.careful
    assert not suspects.suspected(0)
    assert suspects.recorded(0) == NO_CRASHES


def test_one_death_is_an_accident():
    assert not Suspects(Crashes(1), 10, 20).careful


def test_suspect_is_what_was_there_when_the_queue_was_taken(suspects):
    assert suspects.careful
    assert [offset for offset in range(10, 30) if suspects.suspected(offset)] == [
        *range(10, 15),
        *range(16, 20),
    ]
    assert suspects.condemned == {15: 2}


def test_a_queue_with_nothing_unfinished_has_no_suspects():
    idle = Suspects(Crashes(2), 20, 20)
    assert not idle.careful
    assert idle.recorded(20) == NO_CRASHES


# --- when it is over ---------------------------------------------------------------------------


def test_over_once_everything_below_the_end_is_finished(suspects):
    suspects.look(19, 20, [19])
    assert suspects.on
    suspects.look(20, 25, [20, 21])
    assert not suspects.on
    assert suspects.over


def test_over_once_every_lane_is_past_what_may_be_to_blame(suspects):
    survive(suspects, 10, 13)
    suspects.look(10, 20, [10, 13, 17])
    assert suspects.on, "17 was not tried"
    survive(suspects, 17)
    suspects.look(10, 20, [10, 13, 17, 25, 15])
    assert not suspects.on


def test_not_over_before_all_of_them_were_pulled(suspects):
    survive(suspects, 10)
    suspects.look(10, 19, [10])
    assert suspects.on


def tried(queue):
    """Handle the next message; it is kept in hand, as under manual commit."""
    batch = queue.take(1, 1.0)
    (offset,) = [each.queue_offset for each in batch.messages]
    queue.tries(offset)
    queue.finish(batch, Disposition.KEEP, 1.0)
    queue.tries(None)
    return offset


@pytest.mark.parametrize("max_messages", [100, 2], ids=["with bodies", "bodies not kept"])
def test_not_over_while_a_message_behind_a_kept_one_was_not_tried(max_messages):
    """Under manual commit the lowest one of a lane stays, though the handler came back from it."""
    suspects = Suspects(Crashes(2), 10, 14)
    limits = {"max_messages": max_messages, "max_bytes": 10**6}
    lease = Lease(0.0, 30.0)
    queue = OwnedQueue(QUEUE, 10, lease, by_key=True, suspects=suspects, **limits)
    messages = [message(offset) for offset in range(10, 14)]
    queue.pulled(messages, 14, None, ["a"] * 4)
    queue.request_run()
    for offset in range(10, 14):
        assert suspects.on, f"{offset} was not tried"
        if (asked := queue.refill_gate(1.0)) is not None:
            queue.refilled(asked, [m for m in messages if m.queue_offset >= asked], 14)
        assert tried(queue) == offset
    assert not suspects.on
    assert suspects.over


def test_what_broke_off_is_not_cleared(suspects):
    suspects.tries(10)
    suspects.stopped()
    suspects.look(10, 20, [10])
    assert suspects.on
    assert suspects.trying is None


def test_over_after_so_many_at_the_latest():
    suspects = Suspects(Crashes(2), 0, 10**6)
    survive(suspects, *range(MOST_SUSPECTS - 1), 0, 1)
    suspects.look(5, 10, [5])
    assert suspects.on, "a message that is tried again is no other one"
    survive(suspects, MOST_SUSPECTS)
    suspects.look(5, 10, [5])
    assert not suspects.on


def test_looked_at_until_the_end_is_told(suspects):
    suspects.finished(15)
    suspects.look(20, 20, [])
    assert suspects.careful
    suspects.over = False
    assert not suspects.careful


# --- what is condemned -------------------------------------------------------------------------


def test_what_is_condemned_stays_so_after_the_loop(suspects):
    survive(suspects, 10)
    suspects.look(10, 20, [10, 15])
    suspects.over = False
    assert not suspects.on
    assert suspects.careful
    suspects.finished(15)
    assert not suspects.careful


def owned(suspects):
    limits = {"max_messages": 100, "max_bytes": 10**6}
    return OwnedQueue(QUEUE, 10, Lease(0.0, 30.0), by_key=True, suspects=suspects, **limits)


def test_its_queue_says_when_it_is_settled(suspects):
    queue = owned(Suspects(Crashes(0, ((10, 2),))))
    queue.pulled([message(10), message(11)], 12, None, ["a", "a"])
    queue.request_run()
    batch = queue.take(1, 1.0)
    queue.finish(batch, Disposition.PUT_BACK, 1.0)
    assert queue.suspects.careful
    queue.finish(queue.take(1, 1.0), Disposition.COMMIT, 1.0)
    assert not queue.suspects.careful


def test_its_queue_says_when_nothing_is_left(suspects):
    """What a filter passes over brings no message."""
    queue = owned(suspects)
    queue.pulled([], 19)
    assert suspects.on
    queue.pulled([], 20)
    assert not suspects.on


# --- what is on record -------------------------------------------------------------------------


def test_in_the_loop_progress_changes_nothing_on_record(suspects):
    assert suspects.recorded(10) == LOOP
    assert suspects.recorded(13) == Crashes(3, ((15, 2),))


def test_what_is_being_tried_is_on_record(suspects):
    suspects.tries(12)
    assert suspects.recorded(10).trying == 12
    suspects.tries(None)
    assert suspects.recorded(10).trying is None


def test_the_end_of_the_loop_keeps_only_what_is_condemned(suspects):
    suspects.look(20, 20, [])
    assert suspects.recorded(10) == Crashes(0, ((15, 2),))
    suspects.finished(15)
    assert suspects.recorded(10) == NO_CRASHES


def test_an_accident_is_forgotten_with_progress_or_a_clean_end():
    suspects = Suspects(Crashes(1), 10, 20)
    assert suspects.recorded(10) == Crashes(1)
    assert suspects.recorded(11) == NO_CRASHES
    assert suspects.recorded(10, closing=True) == NO_CRASHES


def test_a_clean_end_in_the_middle_of_a_loop_hands_it_on(suspects):
    assert suspects.recorded(10, closing=True) == LOOP


# --- conclusion -----------------------------------------------------------------------------------
# Who died, and during what: concluded from records alone.


HEIR = "heir@9"


def entry(owner="a@1", token=0, **fields):
    content = {"number": 1, "previous": 1, "epoch": 1, "low": 10, "previous_low": 10, "runs": ()}
    return Entry(**{"owner": owner, "token": token, "chunks": 1} | content | fields)


# --- who ended ---------------------------------------------------------------------------------


def test_a_queue_nobody_owned_has_no_dead():
    assert unclean_ends(None, [], HEIR) == ()


def test_an_owner_that_closed_is_not_dead():
    assert unclean_ends(entry(closed=True), [], HEIR) == ()


def test_an_owner_without_the_mark_of_a_clean_end_is_dead():
    assert unclean_ends(entry(), [], HEIR) == (None,)


def test_each_take_over_without_an_entry_is_one_death_more():
    later = [Confirm("b@2", 5), Acquire("c@3"), Confirm("c@3", 7)]
    assert unclean_ends(entry(), later, HEIR) == (None, None, None)
    assert unclean_ends(entry(closed=True), later, HEIR) == (None, None)
    assert unclean_ends(None, later, HEIR) == (None, None)


def test_a_member_that_took_the_queue_again_and_again_died_once():
    later = [Confirm("b@2", 5), Trying("b@2", 5, 12), Confirm("b@2", 7), Confirm("b@2", 9)]
    assert unclean_ends(None, later, HEIR) == (None,), "it survived 12"
    assert unclean_ends(None, [*later, Trying("b@2", 9, 14)], HEIR) == (14,)


def test_the_heirs_own_former_ownership_is_no_death():
    later = [Confirm(HEIR, 5), Trying(HEIR, 5, 12), Confirm("b@2", 7)]
    assert unclean_ends(entry(), later, HEIR) == (None, None)
    assert unclean_ends(entry(HEIR), [], HEIR) == ()


def test_who_acquired_and_was_never_confirmed_is_no_death():
    assert unclean_ends(entry(closed=True), [Acquire("b@2")], HEIR) == ()


# --- during what -------------------------------------------------------------------------------


def test_the_last_message_tried_is_what_the_owner_died_of():
    later = [Trying("a@1", 0, 12), Trying("a@1", 0, 14)]
    assert unclean_ends(entry(), later, HEIR) == (14,)


def test_a_handler_that_came_back_is_not_what_the_owner_died_of():
    later = [Trying("a@1", 0, 12), Trying("a@1", 0, None)]
    assert unclean_ends(entry(), later, HEIR) == (None,)


@pytest.mark.parametrize("offset", [0, 12])
def test_an_entry_written_meanwhile_still_says_what_was_tried(offset):
    assert unclean_ends(entry(trying=offset), [], HEIR) == (offset,)
    assert unclean_ends(entry(trying=offset), [Trying("a@1", 0, None)], HEIR) == (None,)


def test_each_of_several_dead_owners_has_its_own():
    later = [Trying("a@1", 0, 12), Confirm("b@2", 5), Trying("b@2", 5, 13), None]
    assert unclean_ends(entry(), later, HEIR) == (12, 13)


def test_what_a_stale_owner_still_writes_does_not_count():
    later = [Confirm("b@2", 5), Trying("a@1", 0, 12), Confirm("z@0", 3), Trying("z@0", 3, 13)]
    assert unclean_ends(entry(), later, HEIR) == (None, None)


# --- what follows from it ----------------------------------------------------------------------


def test_deaths_add_up_while_the_offset_does_not_move():
    assert conclude(entry(deaths=1), (None,), 10, ()).deaths == 2
    assert conclude(entry(deaths=1), (None, None), 10, ()).deaths == 3
    assert conclude(None, (None, None), 10, ()).deaths == 2


def test_progress_forgets_all_deaths_but_the_last():
    assert conclude(entry(deaths=1), (None, None), 11, ()).deaths == 1
    assert conclude(entry(deaths=1), (), 11, ()).deaths == 0


def test_progress_does_not_end_a_crash_loop():
    assert conclude(entry(deaths=2), (12,), 11, ()) == Crashes(3, ((12, 1),))


def test_two_deaths_are_a_loop_and_two_during_one_message_condemn_it():
    assert not Crashes(1).looped
    assert Crashes(2).looped
    assert Crashes(9, ((4, 1), (5, 2), (6, 3))).condemned == {5: 2, 6: 3}


def test_a_message_is_blamed_once_for_each_death():
    found = conclude(entry(deaths=3, suspects=((12, 1), (30, 1))), (12, None), 10, ())
    assert found == Crashes(5, ((12, 2), (30, 1)))


def test_what_is_finished_on_record_is_not_blamed():
    newest = entry(deaths=3, suspects=((9, 1), (12, 1), (13, 1)))
    assert conclude(newest, (12,), 10, ((12, 13),)).suspects == ((13, 1),)


def test_without_a_trying_nobody_is_ever_blamed():
    newest = entry()
    for _ in range(50):
        found = conclude(newest, (None,), 10, ())
        newest = entry(deaths=found.deaths, suspects=found.suspects)
    assert found == Crashes(50)


def test_nothing_at_all_is_nothing():
    assert conclude(entry(closed=True), (), 10, ()) == NO_CRASHES


OFFSETS = st.integers(0, 40)
ENDS = st.lists(st.none() | OFFSETS, max_size=6).map(tuple)
SUSPECTS = st.dictionaries(OFFSETS, st.integers(1, 3)).map(lambda d: tuple(sorted(d.items())))


@given(ENDS, SUSPECTS, st.integers(0, 5), st.integers(10, 20))
def test_only_what_was_tried_is_ever_suspect(ends, suspects, deaths, low):
    finished = ((low + 2, low + 5),)
    found = conclude(entry(deaths=deaths, suspects=suspects), ends, low, finished)
    before = dict(suspects)
    for offset, times in found.suspects:
        assert times == before.get(offset, 0) + ends.count(offset) > 0
        assert offset >= low
        assert not low + 2 <= offset < low + 5
    assert list(found.suspects) == sorted(found.suspects)
    assert found.deaths <= deaths + len(ends)


def test_no_more_suspects_than_a_record_takes():
    suspects = tuple((offset, 1) for offset in range(20, 20 + MOST_SUSPECTS))
    assert len(conclude(entry(suspects=suspects), (12,), 10, ()).suspects) == MOST_SUSPECTS
