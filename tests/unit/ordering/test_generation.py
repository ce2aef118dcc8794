"""Whether a queue's topic was made anew: the one proof, and everything that is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import RequestTimeout, TopicNotFound
from orderly.ordering.calls import MinOffset, OffsetReset, Peek, converse
from orderly.ordering.generation import Landmark, new_minimum
from tests.support.state_queue import BORN, QUEUE, StateBroker

NEWER, SAME, OLDER = BORN + 9_000_000, BORN, BORN - 9_000_000
MARK = Landmark(7, BORN)


def asked(broker, landmark=MARK):
    return converse(new_minimum(QUEUE, landmark), broker.performer("me@1"))


def first_stored(at, minimum=0, **settings):
    """A queue whose lowest message was stored then."""
    broker = StateBroker(minimum=minimum, **settings)
    broker.began += at - broker.stored_at(minimum)
    return broker


@pytest.mark.parametrize(
    ("minimum", "stored", "found"),
    [
        (0, NEWER, 0),
        (0, BORN + 1, 0),  # by a millisecond
        (0, SAME, None),  # of one batch, or the landmark itself
        (0, OLDER, None),
        (7, NEWER, 7),  # another message where the landmark was
        (7, SAME, None),  # the landmark
        (7, OLDER, None),
        (8, NEWER, None),  # what is above the landmark is newer in any generation
        (8, OLDER, None),
        (900, NEWER, None),
    ],
)
def test_proof_is_a_lowest_message_that_is_newer_than_one_above_it(minimum, stored, found):
    assert asked(first_stored(stored, minimum)) == found


def test_without_a_landmark_nothing_is_proven_and_nothing_asked():
    broker = first_stored(NEWER)
    assert asked(broker, None) is None
    assert broker.calls == []


@pytest.mark.parametrize(("end", "found"), [(0, 0), (7, 7), (8, None), (20, None)])
def test_an_empty_queue_is_a_new_one_if_it_gives_the_offsets_to_others(end, found):
    assert asked(StateBroker(minimum=end, end=end)) == found


def test_a_lowest_message_that_cannot_be_read_proves_nothing():
    assert asked(first_stored(NEWER, unreadable=frozenset({0}))) is None


def test_it_costs_two_questions():
    broker = first_stored(NEWER)
    asked(broker)
    assert broker.calls == [MinOffset(QUEUE), Peek(QUEUE, 0)]


@pytest.mark.parametrize(
    "error", [TopicNotFound("no"), RequestTimeout("late"), OffsetReset(QUEUE, 3)]
)
@pytest.mark.parametrize("failing", [MinOffset, Peek])
def test_what_cannot_be_known_is_an_error_and_never_an_answer(failing, error):
    broker = first_stored(NEWER)

    def perform(call):
        if isinstance(call, failing):
            raise error
        return broker.answer(call, "me@1")

    with pytest.raises(type(error)):
        converse(new_minimum(QUEUE, MARK), perform)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_in_one_generation_there_is_never_a_proof(finished, deleted, stored):
    """Whatever the broker has deleted or lost since a message was finished."""
    broker = StateBroker(end=100)
    mark = broker.landmark(finished)
    broker.minimum, broker.end = deleted, max(deleted + stored, finished + 1)
    assert asked(broker, mark) is None


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_in_the_next_one_it_is_proven_unless_the_minimum_has_passed_the_landmark(
    finished, deleted, stored
):
    broker = StateBroker(end=100)
    mark = broker.landmark(finished)
    broker.made_anew(minimum=deleted, end=deleted + stored)
    assert asked(broker, mark) == (deleted if deleted <= finished else None)
