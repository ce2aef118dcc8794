"""Whether a committed offset is ours, and of which generation of the topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import RequestTimeout, TopicNotFound
from orderly.ordering.broker_calls import MinOffset, OffsetReset, Peek, converse
from orderly.ordering.fence import FORGOTTEN, Fence, Landmark, new_minimum
from orderly.protocol.state_record import MAX_WINDOW
from tests.support.owners import BORN, QUEUE, StateBroker

# --- generation -----------------------------------------------------------------------------------
# Whether a queue's topic was made anew: the one proof, and everything that is none.


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


# --- fence ----------------------------------------------------------------------------------------
# Which committed offsets are ours: what we sent lately, and nothing else.


def committed(fence, *commits):
    """Have commits, as (offset, when it is sent), acknowledged."""
    for offset, at in commits:
        fence.sends(offset)
        fence.note(offset, at)
    return fence


def test_the_offset_that_was_found_is_explained():
    fence = Fence(5)
    assert fence.explains(5)
    assert (fence.written, fence.newest, fence.window) == (5, 5, (5,))


def test_what_was_sent_is_ours_before_its_answer_comes():
    """An answer that was lost must not look like somebody else's progress."""
    fence = Fence(5)
    fence.sends(7)
    assert fence.explains(7)
    assert (fence.written, fence.newest) == (5, 7), "it is not acknowledged"
    fence.note(7, 1.0)
    assert fence.written == 7


def test_any_other_offset_is_somebody_elses():
    fence = committed(Fence(5), (7, 1.0))
    assert not any(fence.explains(stored) for stored in (0, 4, 6, 8))


def test_a_broker_that_forgot_all_explains_itself():
    assert committed(Fence(5), (7, 1.0)).explains(None)


# --- a broker that went back -------------------------------------------------------------------


def test_the_window_is_what_was_sent_lately_and_what_was_stored_when_it_began():
    fence = committed(Fence(5), *((6 + n, 4.0 * n) for n in range(1, 10)))
    assert (fence.written, FORGOTTEN) == (15, 15.0)  # sent at 36: the window begins at 21
    assert fence.window == (11, 12, 13, 14, 15), "11, sent at 20, was stored at 21"
    assert not any(fence.explains(stored) for stored in range(5, 11))


def test_an_offset_that_was_stored_all_the_time_stays():
    """However long nothing was committed: the broker may have written it down only then."""
    fence = committed(Fence(5), (7, 1.0), (9, 1000.0))
    assert fence.window == (7, 9)
    assert committed(fence, (10, 1014.9)).window == (7, 9, 10)
    assert committed(fence, (11, 1015.0)).window == (9, 10, 11)


@pytest.mark.parametrize("commits", [5, 100, MAX_WINDOW - 2])
def test_many_quick_commits_push_nothing_out(commits):
    """Keys that are parked are committed at once, not periodically."""
    fence = committed(Fence(5), (6, 1.0), (7, 20.0))
    committed(fence, *((8 + n, 20.0 + n * 0.01) for n in range(commits)))
    assert fence.explains(6)
    assert not fence.explains(5)


def test_the_window_does_not_age_while_nothing_is_acknowledged():
    fence = committed(Fence(5), (6, 1.0), (7, 10.0))
    for offset in (8, 9, 10):
        fence.sends(offset)
    assert fence.window == (5, 6, 7, 8, 9, 10)
    fence.note(10, 10_000.0)
    assert fence.window == (7, 8, 9, 10)


@pytest.mark.parametrize("retried", [(8, 8, 8), (8, 9, 10)], ids=["the same", "with progress"])
def test_what_was_sent_in_vain_ages_only_from_its_acknowledgement_on(retried):
    """While the broker was away it had the old offset; it may be killed again right afterwards."""
    fence = committed(Fence(5), (6, 1.0), (7, 10.0))
    for offset in retried:
        fence.sends(offset)
    fence.note(retried[-1], 200.0)
    assert fence.explains(7), "stored until 200"
    assert not fence.explains(6)
    committed(fence, (20, 214.9))
    assert fence.explains(7)
    committed(fence, (21, 215.0))
    assert not fence.explains(7)


def test_the_window_is_bounded_and_never_without_what_was_acknowledged_last():
    fence = committed(Fence(0), (1, 1.0))
    for offset in range(2, 2 + MAX_WINDOW):
        fence.sends(offset)
    assert len(fence.window) == MAX_WINDOW
    assert not fence.explains(0)
    assert fence.explains(1)
    assert fence.explains(1 + MAX_WINDOW)


def test_what_former_owners_sent_is_bounded_together_with_the_start():
    fence = Fence(5000, range(MAX_WINDOW))
    assert len(fence.window) == MAX_WINDOW
    assert fence.newest == 5000


def test_the_same_offset_again_forgets_nothing_in_time():
    fence = committed(Fence(0), *((1, n * 0.01) for n in range(1, 500)))
    assert fence.explains(0)


def test_an_offset_that_goes_back_is_told_too():
    fence = committed(Fence(50), (3, 1.0))
    assert (fence.written, fence.explains(50)) == (3, True)


def test_what_former_owners_sent_is_ours_for_as_long_as_they_may_have_sent_it_now():
    fence = Fence(9, (7, 9, 8), now=100.0)
    assert fence.window == (7, 8, 9)
    assert (fence.written, fence.newest) == (9, 9)
    assert committed(fence, (10, 114.0)).window == (7, 8, 9, 10)
    assert committed(fence, (11, 129.0)).window == (10, 11)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 60), st.floats(0, 20), st.sampled_from(["done", "lost", "answer lost"])
    ),
    max_size=40,
)


@given(STEPS)
def test_no_offset_that_a_killed_broker_may_have_is_somebody_elses(steps):
    """The truth: when the broker had which offset. It is killed after the last acknowledgement."""
    fence, at, acknowledged = Fence(100, now=0.0), 0.0, 0.0
    had = [(0.0, 100)]
    for offset, pause, fate in steps:
        at += pause
        fence.sends(offset)
        if fate != "lost":
            had.append((at, offset))
        if fate == "done":
            fence.note(offset, at)
            acknowledged = at
    began = acknowledged - FORGOTTEN
    stored = [offset for since, offset in had if since <= began][-1:]
    stored += [offset for since, offset in had if since > began]
    assert all(fence.explains(offset) for offset in stored)
