"""A commit step by step: compare, remember, save; every failure at every step; and handing on."""

import pytest

from orderly.errors import BrokerBusy, BrokerError, LockLost, RequestTimeout
from orderly.ordering.calls import (
    AppendRecord,
    QueryOffset,
    SaveOffset,
    UnlockQueues,
    converse,
)
from orderly.ordering.state.committing import Progress, commit, hand_on
from orderly.ordering.state.fence import Fence
from tests.support.messages import QUEUE

STATE = AppendRecord(QUEUE, b"state")
CLOSED = AppendRecord(QUEUE, b"closed")
QUERY, UNLOCK = QueryOffset(QUEUE), UnlockQueues("broker-a", (QUEUE,))
AHEAD = ((9, 12),)
NOW = 100.0


class Broker:
    """Has `stored`; what `fails` is asked for raises, once it was carried out if `executes`."""

    def __init__(self, stored=5, fails=None, error=None, *, executes=False):
        self.stored, self.asked = stored, []
        self.fails, self.error, self.executes = fails, error or RequestTimeout("late"), executes

    def __call__(self, call):
        self.asked.append(call)
        failing = type(call) is self.fails
        if isinstance(call, SaveOffset) and (not failing or self.executes):
            self.stored = call.offset
        if failing:
            raise self.error
        return self.stored if isinstance(call, QueryOffset) else None


class Memory:
    """Notes what is to be remembered, if it is new or the end."""

    def __init__(self, *, lost=False):
        self.noted, self.lost, self.closed, self.kept = [], lost, False, []
        self.crashes = []

    def remember(
        self, low, previous_low, runs, kept, crashes, *, fence, closed=False, refresh=False
    ):
        content = (low, previous_low, runs)
        self.kept.append(kept)
        self.crashes.append(crashes)
        if not (closed or refresh) and content in self.noted[-1:]:
            return
        self.noted.append(content)
        if self.lost:
            raise LockLost("another owner was confirmed")
        yield CLOSED if closed else STATE
        self.closed = closed


def test_compare_remember_save_in_this_order():
    broker, fence, memory = Broker(), Fence(5), Memory()
    converse(commit(QUEUE, Progress(7, AHEAD), fence, memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE, SaveOffset(QUEUE, 7)]
    assert memory.noted == [(7, 5, AHEAD)]
    assert fence.written == 7


def test_by_queue_nothing_is_remembered():
    broker = Broker()
    converse(commit(QUEUE, Progress(7), Fence(5), None, now=NOW), broker)
    assert broker.asked == [QUERY, SaveOffset(QUEUE, 7)]


def test_what_only_changed_ahead_is_remembered_without_a_save():
    broker, memory = Broker(), Memory()
    converse(commit(QUEUE, Progress(5, AHEAD), Fence(5), memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE]


@pytest.mark.parametrize("memory", [None, Memory()], ids=["by queue", "by key"])
def test_somebody_elses_progress_loses_the_queue_and_writes_nothing(memory):
    broker, fence = Broker(stored=6), Fence(5)
    with pytest.raises(LockLost, match="is 6, which this member never wrote"):
        converse(commit(QUEUE, Progress(7, AHEAD), fence, memory, closing=True, now=NOW), broker)
    assert broker.asked == [QUERY]
    assert fence.written == 5


def test_another_owner_on_record_loses_the_queue_before_the_save():
    broker = Broker()
    with pytest.raises(LockLost, match="confirmed"):
        converse(commit(QUEUE, Progress(7, AHEAD), Fence(5), Memory(lost=True), now=NOW), broker)
    assert broker.asked == [QUERY]


@pytest.mark.parametrize(
    ("fails", "asked"),
    [
        (QueryOffset, [QUERY]),
        (AppendRecord, [QUERY, STATE]),
        (SaveOffset, [QUERY, STATE, SaveOffset(QUEUE, 7)]),
    ],
)
@pytest.mark.parametrize("error", [RequestTimeout("late"), BrokerError("no", code=17)], ids=repr)
def test_after_a_failed_step_no_further_one_is_taken(fails, asked, error):
    broker, fence = Broker(fails=fails, error=error), Fence(5)
    with pytest.raises(type(error)):
        converse(commit(QUEUE, Progress(7, AHEAD), fence, Memory(), now=NOW), broker)
    assert broker.asked == asked
    assert fence.written == 5


@pytest.mark.parametrize("progress", [7, 8])
@pytest.mark.parametrize("executed", [False, True])
def test_a_save_whose_answer_was_lost_is_tried_again_and_never_mistaken(executed, progress):
    """The broker did it or not: in both cases the next commit goes on, even with more progress."""
    broker, fence = Broker(fails=SaveOffset, executes=executed), Fence(5)
    with pytest.raises(RequestTimeout):
        converse(commit(QUEUE, Progress(7), fence, None, now=NOW), broker)
    broker.fails = None
    converse(commit(QUEUE, Progress(progress), fence, None, now=NOW), broker)
    assert (broker.stored, fence.written) == (progress, progress)


@pytest.mark.parametrize("stored", [5, None], ids=["went back", "forgot all"])
def test_a_broker_that_lost_our_offset_gets_it_again(stored):
    fence = Fence(5)
    fence.note(7, NOW)
    broker, memory = Broker(stored=stored), Memory()
    converse(commit(QUEUE, Progress(7, AHEAD), fence, memory, now=NOW), broker)
    assert broker.stored == 7
    assert memory.noted == [(7, 7, AHEAD)], "an operator's reset must not look like a crash"


def test_after_a_lost_answer_the_record_names_what_the_broker_has():
    """Or a crash between the record and the save would look like a reset."""
    broker, fence, memory = Broker(fails=SaveOffset, executes=True), Fence(5), Memory()
    with pytest.raises(RequestTimeout):
        converse(commit(QUEUE, Progress(7, AHEAD), fence, memory, now=NOW), broker)
    with pytest.raises(RequestTimeout):
        converse(commit(QUEUE, Progress(8, AHEAD), fence, memory, now=NOW), broker)
    assert memory.noted == [(7, 5, AHEAD), (8, 7, AHEAD)]


def test_the_state_is_written_anew_when_that_is_asked_for():
    broker, memory, fence = Broker(), Memory(), Fence(5)
    converse(commit(QUEUE, Progress(5, AHEAD), fence, memory, now=NOW), broker)
    converse(commit(QUEUE, Progress(5, AHEAD), fence, memory, now=NOW), broker)
    assert broker.asked.count(STATE) == 1
    converse(commit(QUEUE, Progress(5, AHEAD), fence, memory, refresh=True, now=NOW), broker)
    assert broker.asked.count(STATE) == 2


def test_an_offset_may_go_back():
    broker = Broker()
    converse(commit(QUEUE, Progress(2), Fence(5), None, now=NOW), broker)
    assert broker.stored == 2


# --- handing on --------------------------------------------------------------------------------


def test_handing_on_saves_before_it_unlocks():
    broker = Broker()
    assert converse(hand_on(QUEUE, Progress(7), Fence(5), None, now=NOW), broker) is None
    assert broker.asked == [QUERY, SaveOffset(QUEUE, 7), UNLOCK]


def test_handing_on_what_is_saved_only_unlocks():
    broker = Broker()
    converse(hand_on(QUEUE, None, Fence(5), None, now=NOW), broker)
    assert broker.asked == [UNLOCK]


def test_a_clean_end_is_noted_once_the_offset_is_saved_and_before_the_unlock():
    broker, memory = Broker(), Memory()
    converse(hand_on(QUEUE, Progress(7, AHEAD), Fence(5), memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE, SaveOffset(QUEUE, 7), CLOSED, UNLOCK]
    assert memory.noted[-1] == (7, 7, AHEAD)


@pytest.mark.parametrize("error", [RequestTimeout("late"), BrokerBusy("busy", code=2)], ids=repr)
@pytest.mark.parametrize("fails", [QueryOffset, AppendRecord, SaveOffset])
def test_what_may_succeed_later_keeps_the_lock(fails, error):
    broker = Broker(fails=fails, error=error)
    with pytest.raises(type(error)):
        converse(hand_on(QUEUE, Progress(7), Fence(5), Memory(), now=NOW), broker)
    assert UNLOCK not in broker.asked


def test_a_final_refusal_is_reported_and_the_queue_unlocked():
    refusal = BrokerError("no such topic", code=17)
    broker = Broker(fails=SaveOffset, error=refusal)
    assert converse(hand_on(QUEUE, Progress(7), Fence(5), None, now=NOW), broker) is refusal
    assert broker.asked[-1] == UNLOCK


def test_an_offset_that_somebody_set_and_that_we_go_on_from_is_no_error():
    """A reset: the broker has set it already, and told us."""
    broker, memory = Broker(stored=2), Memory()
    assert converse(hand_on(QUEUE, Progress(2, moved=True), Fence(5), memory, now=NOW), broker) is None
    assert SaveOffset(QUEUE, 2) not in broker.asked
    assert memory.closed, "what was finished ahead before is off the record"


def test_somebody_elses_progress_to_our_own_offset_is_somebody_elses():
    """What they finished ahead of it we do not know."""
    with pytest.raises(LockLost):
        converse(commit(QUEUE, Progress(7), Fence(5), Memory(), now=NOW), Broker(stored=7))


def test_somebody_elses_progress_is_reported_and_the_queue_unlocked():
    broker = Broker(stored=6)
    refusal = converse(hand_on(QUEUE, Progress(7), Fence(5), Memory(), now=NOW), broker)
    assert isinstance(refusal, LockLost)
    assert broker.asked == [QUERY, UNLOCK]


def test_an_unlock_without_an_answer_is_an_error_and_doing_it_again_is_right():
    broker, fence, memory = Broker(fails=UnlockQueues), Fence(5), Memory()
    with pytest.raises(RequestTimeout):
        converse(hand_on(QUEUE, Progress(7), fence, memory, now=NOW), broker)
    broker.fails = None
    assert converse(hand_on(QUEUE, Progress(7), fence, memory, now=NOW), broker) is None
    assert broker.asked.count(CLOSED) == 1
    assert broker.asked[-1] == UNLOCK
