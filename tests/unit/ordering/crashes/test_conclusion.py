"""Who died, and during what: concluded from records alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.crashes.conclusion import conclude, unclean_ends
from orderly.ordering.crashes.crashes import MOST_SUSPECTS, NO_CRASHES, Crashes
from orderly.protocol.state_record import Acquire, Confirm, Entry, Trying

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


def test_the_heirs_own_former_tenure_is_no_death():
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
