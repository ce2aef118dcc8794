"""The order of a replay: the source queue's, each message once, whatever is in the park queue."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.parking.index import KeyIndex, Place
from orderly.protocol.park_record import read_parked
from tests.support.park_queue import parked_message


def parked(key, offset, position, attempts=0):
    return read_parked(parked_message(key, offset, position, attempts))


def index_of(*messages, key="a", first=0):
    index = KeyIndex(key, first)
    for each in messages:
        index.add(each)
    return index


def test_messages_come_in_the_order_of_their_source_queue():
    index = index_of(parked("a", 9, 0), parked("a", 3, 1), parked("a", 5, 2))
    assert index.lowest(9) == [Place(3, 1), Place(5, 2), Place(9, 0)]
    assert index.lowest(2) == [Place(3, 1), Place(5, 2)]


def test_another_key_with_the_same_tag_is_not_taken():
    index = KeyIndex("a", 0)
    assert not index.add(parked("b", 9, 0))
    assert index.add(parked("a", 9, 0))
    assert len(index) == 1


def test_what_is_settled_is_not_taken():
    assert index_of(parked("a", 4, 0), parked("a", 5, 1), first=5).lowest(9) == [Place(5, 1)]


def test_of_two_copies_the_last_one_is_taken():
    assert index_of(parked("a", 4, 0), parked("a", 4, 7)).lowest(9) == [Place(4, 7)]


def test_a_copy_that_was_not_tried_never_hides_one_that_was():
    """Appended again after a crash, it no longer knows what went wrong."""
    assert index_of(parked("a", 4, 0, 3), parked("a", 4, 7, 0)).lowest(9) == [Place(4, 0)]


def test_settling_forgets_what_is_below_also_what_is_still_to_come():
    index = index_of(parked("a", 4, 0), parked("a", 6, 1))
    assert index.lowest(9)
    index.settle(6)
    assert index.lowest(9) == [Place(6, 1)]
    assert not index.add(parked("a", 5, 2))


COPIES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from([0, 3])))


@given(COPIES, st.integers(0, 9))
def test_each_message_of_the_key_from_the_first_on_comes_once_and_in_order(copies, first):
    messages = [parked(key, at, n, tries) for n, (key, at, tries) in enumerate(copies)]
    places = index_of(*messages, first=first).lowest(99)
    assert [place.offset for place in places] == sorted(
        {at for key, at, _ in copies if key == "a" and at >= first}
    )
    for place in places:
        key, at, tries = copies[place.position]
        assert (key, at) == ("a", place.offset)
        tried = [n for n, copy in enumerate(copies) if copy == (key, at, 3)]
        assert place.position == (tried[-1] if tried else place.position)
        assert copies[place.position + 1 :].count((key, at, tries)) == 0
