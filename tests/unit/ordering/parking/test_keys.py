"""The table of parked keys: what is on record of them follows from what was noted."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.parking.keys import Kept, ParkedKey, ParkedKeys


def table(*parked, commands=0):
    return ParkedKeys(Kept(parked, commands))


def test_the_first_message_noted_parks_its_key():
    parking = table()
    assert not parking.parked("a")
    parking.note("a", offset=7, position=3, size=10)
    assert parking.parked("a")
    assert parking.get("a") == ParkedKey("a", next=7, at=3, messages=1, size=10, counted_to=8)
    assert (len(parking), parking.messages, parking.size) == (1, 1, 10)


def test_later_ones_are_counted_and_the_newest_position_is_kept():
    parking = table()
    for offset in (7, 9, 12):
        parking.note("a", offset, position=offset + 1, size=10)
    assert parking.get("a") == ParkedKey("a", next=7, at=8, messages=3, size=30, counted_to=13)
    assert parking.last_position("a") == 13


def test_what_was_appended_again_counts_once():
    parking = table()
    parking.note("a", 7, position=3, size=10)
    parking.note("a", 9, position=4, size=10)
    parking.note("a", 9, position=5, size=10)
    assert (parking.messages, parking.size, parking.last_position("a")) == (2, 20, 5)


def test_an_offset_below_the_next_one_is_to_be_replayed_again():
    """The committed offset was set back: these were settled before."""
    parking = table(ParkedKey("a", next=20, at=4, messages=2, size=20, counted_to=23))
    for offset in (5, 6, 20, 22):
        parking.note("a", offset, position=9, size=10)
    after = ParkedKey("a", next=5, at=4, messages=4, size=40, counted_to=23)
    assert parking.get("a") == after, "the other two were counted before"


def test_what_an_heir_appends_again_was_counted_by_the_former_owner():
    parking = table(ParkedKey("a", next=7, at=4, messages=2, size=20, counted_to=10))
    for offset in (7, 9, 11, 11):
        parking.note("a", offset, position=offset, size=10)
    assert parking.get("a") == ParkedKey("a", next=7, at=4, messages=3, size=30, counted_to=12)
    parking.release("a")
    parking.note("a", 8, position=20, size=10)
    assert parking.messages == 1, "it is parked anew"


def test_what_an_older_release_counted_is_not_known():
    parking = table(ParkedKey("a", next=7, at=4, messages=1, size=10))
    parking.note("a", 7, position=9, size=10)
    assert parking.messages == 2


def test_of_an_inherited_key_the_newest_position_is_not_known():
    parking = table(ParkedKey("a", next=20, at=4))
    assert parking.last_position("a") == 4


def test_progress_of_a_replay_is_noted():
    parking = table(ParkedKey("a", next=7, at=3, messages=5, size=50))
    parking.settled("a", 9, messages=2, size=20)
    assert parking.get("a") == ParkedKey("a", next=9, at=3, messages=3, size=30)
    parking.settled("a", 10, messages=9, size=90)
    assert parking.get("a") == ParkedKey("a", next=10, at=3, messages=0, size=0)
    assert (parking.messages, parking.size) == (0, 0)


def test_a_released_key_is_gone_and_can_be_put_back():
    parking = table(ParkedKey("a", 7, 3, 5, 50), ParkedKey("b", 1, 1, 1, 1))
    parking.note("a", 30, position=90, size=10)
    before = parking.get("a")
    parking.release("a")
    assert not parking.parked("a")
    assert (len(parking), parking.messages, parking.size) == (1, 1, 1)
    parking.restore(before)
    assert parking.get("a") == before
    assert parking.last_position("a") == 90, "a later replay looks up to there"
    assert (parking.messages, parking.size) == (7, 61)


def test_of_keys_still_parked_the_newest_position_stays_when_another_is_released():
    parking = table()
    for key, position in (("a", 3), ("b", 4), ("a", 9)):
        parking.note(key, offset=position, position=position, size=1)
    parking.release("b")
    assert parking.last_position("a") == 9


def test_messages_that_were_all_appended_again_are_found_at_a_new_place():
    parking = table(ParkedKey("a", 7, 3, 5, 50))
    parking.moved("a", at=40)
    assert parking.get("a") == ParkedKey("a", 7, 40, 5, 50)


def test_keys_that_are_equal_are_one_as_in_lanes():
    parking = table(ParkedKey(1, 7, 3))
    assert parking.parked(True)
    assert parking.parked(1.0)
    assert not parking.parked("1")


KEYS = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "1"]))


@given(st.lists(st.tuples(KEYS, st.booleans(), st.integers(0, 9))))
def test_the_sums_are_those_of_the_keys_and_the_snapshot_gives_them_back(steps):
    parking = table()
    for place, (key, end, size) in enumerate(steps):
        if end and parking.parked(key):
            parking.release(key)
        else:
            parking.note(key, place, place, size)
    kept = parking.kept
    assert parking.messages == sum(each.messages for each in kept.parked)
    assert parking.size == sum(each.size for each in kept.parked)
    assert len(parking) == len(kept.parked)
    assert ParkedKeys(kept).kept == kept, "sorted in one way only"
