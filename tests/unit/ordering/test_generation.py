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


class Clock(StateBroker):
    """A broker whose clock was set back or on: its log has these store times, by offset."""

    times: dict

    def stored_at(self, offset):
        return self.times[offset]


def stored(times, minimum=0):
    """A log with these store times from `minimum` on."""
    broker = Clock(minimum=minimum, end=minimum + len(times))
    broker.times = dict(enumerate(times, minimum))
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


@pytest.mark.parametrize("first", [OLDER, BORN - 1, BORN, BORN + 1, NEWER])
def test_a_landmark_that_is_still_there_is_no_new_one_whatever_the_clock_did(first):
    """And costs one question."""
    broker = stored([first, *[NEWER] * 6, BORN, OLDER])
    assert asked(broker) is None
    assert broker.calls == [Peek(QUEUE, 7)]


@pytest.mark.parametrize(
    ("times", "found"),
    [
        # of the same generation, and the clock was set back while messages were stored
        ([BORN] * 7 + [BORN], None),
        ([NEWER] * 7 + [BORN], None),  # before the landmark: the lowest seems to be newer
        ([BORN - 10] * 7 + [BORN, OLDER], None),  # behind it
        # of the same generation, and the log was cut below the landmark; what came since has its
        # offset, and was stored by a clock that was set back, or on
        ([BORN - 10] * 7 + [OLDER], None),
        ([BORN - 10] * 7 + [NEWER], None),
        ([BORN - 10] * 5, None),
        # of the next one, which a clock that was set back has stored before the landmark
        ([OLDER] * 9, None),
        # of the next one
        ([NEWER] * 9, 0),
        ([NEWER] * 3, 0),
        ([NEWER, OLDER, OLDER, OLDER, OLDER, OLDER, OLDER, OLDER], 0),  # set back since
    ],
)  # fmt: skip
def test_table_of_clocks(times, found):
    assert asked(stored(times)) == found


def test_it_costs_three_questions():
    broker = first_stored(NEWER)
    asked(broker)
    assert broker.calls == [Peek(QUEUE, 7), MinOffset(QUEUE), Peek(QUEUE, 0)]


def test_where_the_minimum_is_past_the_landmark_it_costs_two():
    broker = first_stored(NEWER, minimum=8)
    asked(broker)
    assert broker.calls == [Peek(QUEUE, 7), MinOffset(QUEUE)]


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
