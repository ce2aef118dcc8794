"""What failed is remembered: how often, and until when it is held back."""

from dataclasses import replace

from orderly.native.listeners import Waits
from tests.support.messages import message

ONE = message(7)
OTHER = replace(ONE, queue_offset=8)


def test_a_message_that_did_not_fail_is_not_held():
    waits = Waits()
    assert (waits.tries(ONE), waits.holds(ONE, now=0.0)) == (0, False)


def test_it_is_held_until_it_is_due_and_no_other_is():
    waits = Waits()
    waits.again(ONE, due=10.0, tried=True)
    assert [waits.holds(ONE, now) for now in (0.0, 9.99, 10.0)] == [True, True, False]
    assert not waits.holds(OTHER, 0.0)


def test_tries_count_where_it_was_tried():
    waits = Waits()
    for tried in (True, False, True):
        waits.again(ONE, due=1.0, tried=tried)
    assert (waits.tries(ONE), waits.tries(OTHER)) == (2, 0)
    waits.settled(ONE)
    assert (waits.tries(ONE), waits.holds(ONE, 0.0)) == (0, False)


def test_settling_what_is_not_known_is_no_error():
    Waits().settled(ONE)


def test_it_forgets_the_oldest_beyond_its_bound():
    waits = Waits(most=2)
    for offset in range(3):
        waits.again(replace(ONE, queue_offset=offset), due=1.0, tried=True)
    assert [waits.tries(replace(ONE, queue_offset=offset)) for offset in range(3)] == [0, 1, 1]


def test_a_message_at_the_same_place_of_a_topic_made_anew_is_another_one():
    waits, first = Waits(), message(7)
    waits.again(first, 5.0, tried=True)
    assert (waits.tries(first), waits.tries(replace(first, message_id="id-of-another"))) == (1, 0)
