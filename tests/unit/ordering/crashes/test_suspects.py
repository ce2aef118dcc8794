"""Which messages are looked at, and when an owner is through with them."""

import pytest

from orderly.ordering.crashes.crashes import MOST_SUSPECTS, NO_CRASHES, Crashes
from orderly.ordering.crashes.suspects import Suspects
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message

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
