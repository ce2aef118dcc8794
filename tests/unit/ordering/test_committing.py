"""A commit step by step: compare, remember, save; every failure at every step; and handing on."""

import pytest

from orderly.errors import (
    BrokerBusy,
    BrokerError,
    LockLost,
    NotAvailableYet,
    OrderlyError,
    RequestTimeout,
    TopicNotFound,
)
from orderly.ordering.broker_calls import (
    AppendRecord,
    MinOffset,
    OffsetReset,
    Peek,
    Peeked,
    QueryOffset,
    SaveOffset,
    UnlockQueues,
    converse,
)
from orderly.ordering.fence import Fence, Landmark
from orderly.ordering.ownership import (
    CommitProgress,
    NotOnRecord,
    Recreated,
    check_generation,
    commit,
    hand_on,
)
from orderly.ordering.parking import ParkingState
from orderly.protocol.parked_key import ParkedKey
from tests.support.messages import QUEUE

STATE = AppendRecord(QUEUE, b"state")
CLOSED = AppendRecord(QUEUE, b"closed")
BEGUN = AppendRecord(QUEUE, b"a new generation")
QUERY, UNLOCK = QueryOffset(QUEUE), UnlockQueues("broker-a", (QUEUE,))
AHEAD = ((9, 12),)
NOW = 100.0


class Broker:
    """Has `stored`; what `fails` is asked for raises, once it was carried out if `executes`.

    Its lowest message is at `minimum`, stored at `minimum_at`; what is above it at `later_at`.
    """

    def __init__(
        self, stored=5, fails=None, error=None, *, executes=False, minimum_at=1, minimum=0,
        later_at=9000,
    ):  # fmt: skip
        self.stored, self.asked = stored, []
        self.minimum, self.minimum_at, self.later_at = minimum, minimum_at, later_at
        self.fails, self.error, self.executes = fails, error or RequestTimeout("late"), executes

    def __call__(self, call):
        self.asked.append(call)
        failing = type(call) is self.fails
        if isinstance(call, SaveOffset) and (not failing or self.executes):
            self.stored = call.offset
        if failing:
            raise self.error
        match call:
            case QueryOffset():
                return self.stored
            case MinOffset():
                return self.minimum
            case Peek(_, at):
                return Peeked(self.minimum_at if at == self.minimum else self.later_at, 99)
        return None


class Memory:
    """Notes what is to be remembered, if it is new or the end."""

    def __init__(self, *, lost=False):
        self.noted, self.lost, self.closed, self.kept = [], lost, False, []
        self.crashes = []
        self.told = []  # of the fence, when it was written
        self.begun = []

    def remember(
        self,
        low,
        previous_low,
        runs,
        kept,
        crashes,
        *,
        sent_again=(),
        fence,
        closed=False,
        refresh=False,
    ):
        content = (low, previous_low, runs)
        self.kept.append(kept)
        self.crashes.append(crashes)
        if not (closed or refresh) and content in self.noted[-1:]:
            return
        self.noted.append(content)
        self.told.append((fence.window, fence.landmark))
        if self.lost:
            raise LockLost("another owner was confirmed")
        yield CLOSED if closed else STATE
        self.closed = closed

    def begin_generation(self, low, kept, window=()):
        self.begun.append((low, kept))
        if self.lost:
            raise LockLost("another owner was confirmed")
        yield BEGUN


def test_compare_remember_save_in_this_order():
    broker, fence, memory = Broker(), Fence(5), Memory()
    converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE, SaveOffset(QUEUE, 7)]
    assert memory.noted == [(7, 5, AHEAD)]
    assert fence.written == 7


def test_by_queue_nothing_is_remembered():
    broker = Broker()
    converse(commit(QUEUE, CommitProgress(7), Fence(5), None, now=NOW), broker)
    assert broker.asked == [QUERY, SaveOffset(QUEUE, 7)]


def test_what_only_changed_ahead_is_remembered_without_a_save():
    broker, memory = Broker(), Memory()
    converse(commit(QUEUE, CommitProgress(5, AHEAD), Fence(5), memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE]


@pytest.mark.parametrize("memory", [None, Memory()], ids=["by queue", "by key"])
def test_somebody_elses_progress_loses_the_queue_and_writes_nothing(memory):
    broker, fence = Broker(stored=6), Fence(5)
    with pytest.raises(LockLost, match="is 6, which this member never wrote"):
        converse(
            commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, closing=True, now=NOW), broker
        )
    assert broker.asked == [QUERY]
    assert fence.written == 5


def test_another_owner_on_record_loses_the_queue_before_the_save():
    broker = Broker()
    with pytest.raises(LockLost, match="confirmed"):
        converse(
            commit(QUEUE, CommitProgress(7, AHEAD), Fence(5), Memory(lost=True), now=NOW), broker
        )
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
        converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, Memory(), now=NOW), broker)
    assert broker.asked == asked
    assert fence.written == 5


@pytest.mark.parametrize("progress", [7, 8])
@pytest.mark.parametrize("executed", [False, True])
def test_a_save_whose_answer_was_lost_is_tried_again_and_never_mistaken(executed, progress):
    """The broker did it or not: in both cases the next commit goes on, even with more progress."""
    broker, fence = Broker(fails=SaveOffset, executes=executed), Fence(5)
    with pytest.raises(RequestTimeout):
        converse(commit(QUEUE, CommitProgress(7), fence, None, now=NOW), broker)
    broker.fails = None
    converse(commit(QUEUE, CommitProgress(progress), fence, None, now=NOW), broker)
    assert (broker.stored, fence.written) == (progress, progress)


@pytest.mark.parametrize("stored", [5, None], ids=["went back", "forgot all"])
def test_a_broker_that_lost_our_offset_gets_it_again(stored):
    fence = Fence(5)
    fence.note(7, NOW)
    broker, memory = Broker(stored=stored), Memory()
    converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    assert broker.stored == 7
    assert memory.noted == [(7, 7, AHEAD)], "an operator's reset must not look like a crash"


def test_after_a_lost_answer_the_record_names_what_the_broker_has():
    """Or a crash between the record and the save would look like a reset."""
    broker, fence, memory = Broker(fails=SaveOffset, executes=True), Fence(5), Memory()
    with pytest.raises(RequestTimeout):
        converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    with pytest.raises(RequestTimeout):
        converse(commit(QUEUE, CommitProgress(8, AHEAD), fence, memory, now=NOW), broker)
    assert memory.noted == [(7, 5, AHEAD), (8, 7, AHEAD)]


def test_the_state_is_written_anew_when_that_is_asked_for():
    broker, memory, fence = Broker(), Memory(), Fence(5)
    converse(commit(QUEUE, CommitProgress(5, AHEAD), fence, memory, now=NOW), broker)
    converse(commit(QUEUE, CommitProgress(5, AHEAD), fence, memory, now=NOW), broker)
    assert broker.asked.count(STATE) == 1
    converse(commit(QUEUE, CommitProgress(5, AHEAD), fence, memory, refresh=True, now=NOW), broker)
    assert broker.asked.count(STATE) == 2


def test_an_offset_may_go_back():
    broker = Broker()
    converse(commit(QUEUE, CommitProgress(2), Fence(5), None, now=NOW), broker)
    assert broker.stored == 2


# --- a topic that was made anew ----------------------------------------------------------------

MARK = Landmark(4, 1000)
THERE = Peek(QUEUE, 4)
LOOK = [THERE, MinOffset(QUEUE), Peek(QUEUE, 3)]
KEPT = ParkingState((ParkedKey("a", 3, 0),))


def marked(start=5):
    return Fence(start, landmark=MARK, now=NOW)


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("closing", [False, True])
def test_an_offset_that_vanished_with_its_topic_is_replaced_by_the_new_minimum(by_key, closing):
    broker, memory = Broker(stored=None, minimum=3, minimum_at=1001), Memory()
    fence = marked()
    progress = CommitProgress(7, AHEAD, kept=KEPT)
    with pytest.raises(Recreated, match="goes on at its first message, 3") as raised:
        converse(
            commit(QUEUE, progress, fence, memory if by_key else None, now=NOW, closing=closing),
            broker,
        )
    assert raised.value.start == 3
    record = [BEGUN] if by_key else []
    assert broker.asked == [QUERY, *LOOK, QUERY, SaveOffset(QUEUE, 3), *record]
    assert memory.begun == ([(3, KEPT)] if by_key else [])
    assert (memory.noted, broker.stored) == ([], 3), "nothing of the former one is written"
    assert (fence.written, fence.landmark) == (5, MARK)


@pytest.mark.parametrize(
    ("fence", "minimum_at"), [(marked(), 1000), (marked(), 1), (Fence(5), 1001)],
    ids=["the same", "older", "no landmark"],
)  # fmt: skip
def test_without_proof_an_offset_that_vanished_is_committed_again(fence, minimum_at):
    broker, memory = Broker(stored=None, minimum=3, minimum_at=minimum_at), Memory()
    before = fence.landmark
    converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    assert (broker.stored, memory.noted) == (7, [(7, 5, AHEAD)])
    assert fence.landmark == before, "the topic may be a new one: what is finished is no landmark"


def test_an_offset_that_is_there_costs_no_look():
    broker = Broker(minimum_at=1001)
    converse(commit(QUEUE, CommitProgress(7), marked(), None, now=NOW), broker)
    assert broker.asked == [QUERY, SaveOffset(QUEUE, 7)]


@pytest.mark.parametrize(
    "error", [TopicNotFound("gone"), RequestTimeout("late"), OffsetReset(QUEUE, 1)]
)
@pytest.mark.parametrize("failing", [MinOffset, Peek])
def test_while_it_is_not_known_whether_it_was_made_anew_nothing_is_written(failing, error):
    broker, memory = Broker(stored=None, fails=failing, error=error), Memory()
    with pytest.raises(type(error)):
        converse(commit(QUEUE, CommitProgress(7, AHEAD), marked(), memory, now=NOW), broker)
    assert (memory.noted, broker.stored) == ([], None)


def test_a_commit_puts_the_landmark_on_record_and_never_moves_it():
    """What was finished since may be of the new generation already."""
    fence, memory, broker = marked(), Memory(), Broker()
    for offset in (7, 8, 40):
        converse(commit(QUEUE, CommitProgress(offset, AHEAD), fence, memory, now=NOW), broker)
        assert fence.landmark == MARK
    assert [landmark for _, landmark in memory.told] == [MARK] * 3


def test_the_record_tells_what_a_killed_broker_may_come_back_with():
    """And `low` itself, which is sent after it."""
    fence, memory, broker = Fence(5), Memory(), Broker()
    for offset in (7, 8):
        converse(commit(QUEUE, CommitProgress(offset, AHEAD), fence, memory, now=NOW), broker)
    assert [window for window, _ in memory.told] == [(5,), (5, 7)]


@pytest.mark.parametrize(
    ("stored", "saved"), [(None, True), (5, True), (2, False)], ids=["gone", "ours", "set since"]
)
def test_begin_anew_commits_the_minimum_unless_somebody_has_set_an_offset_there(stored, saved):
    broker, memory = Broker(stored=stored, minimum=3, minimum_at=1001), Memory()
    with pytest.raises(Recreated) as raised:
        converse(check_generation(QUEUE, marked(), memory, KEPT), broker)
    assert raised.value.start == 3
    assert (SaveOffset(QUEUE, 3) in broker.asked) == saved
    assert broker.stored == (3 if saved else stored)
    assert memory.begun == [(3, KEPT)], "in any case: nothing of the former one counts"


@pytest.mark.parametrize("failing", [QueryOffset, SaveOffset, AppendRecord])
def test_a_beginning_that_failed_at_any_step_is_found_out_again(failing):
    broker, memory, fence = Broker(stored=None, minimum=3, minimum_at=1001), Memory(), marked()
    broker.fails = failing
    with pytest.raises(RequestTimeout):
        converse(check_generation(QUEUE, fence, memory, KEPT), broker)
    broker.fails = None
    with pytest.raises(Recreated):
        converse(check_generation(QUEUE, fence, memory, KEPT), broker)
    assert (broker.stored, broker.asked[-1]) == (3, BEGUN)


@pytest.mark.parametrize("error", [RequestTimeout("late"), TopicNotFound("gone", code=17)])
def test_a_beginning_that_is_not_on_record_is_not_overwritten_by_the_next_commit(error):
    """The minimum was an offset of ours before, too: the queue began there."""
    fence, memory = Fence(3, landmark=MARK, now=NOW), Memory()
    fence.note(7, NOW)
    broker = Broker(stored=None, minimum=3, minimum_at=1001, fails=AppendRecord, error=error)
    with pytest.raises(OrderlyError):
        converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    broker.fails = None
    with pytest.raises(LockLost):
        converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    assert (broker.stored, memory.noted) == (3, []), "3 to 6 of the new one are to come"


@pytest.mark.parametrize("by_key", [False, True])
def test_begin_anew_changes_nothing_where_there_is_no_proof(by_key):
    broker, memory = Broker(stored=None, minimum=3, minimum_at=1000), Memory()
    converse(check_generation(QUEUE, marked(), memory if by_key else None), broker)
    assert broker.asked == LOOK
    assert memory.begun == []


def test_a_landmark_that_is_still_there_costs_one_question():
    broker = Broker(stored=None, minimum=3, minimum_at=1001, later_at=MARK.stored_at)
    converse(check_generation(QUEUE, marked(), None), broker)
    assert broker.asked == [THERE]


def test_a_topic_that_was_made_anew_is_handed_on_at_its_minimum():
    broker, memory = Broker(stored=None, minimum=3, minimum_at=1001), Memory()
    refusal = converse(hand_on(QUEUE, CommitProgress(7, AHEAD), marked(), memory, now=NOW), broker)
    assert isinstance(refusal, Recreated)
    assert (broker.stored, memory.noted) == (3, [])
    assert broker.asked[-2:] == [BEGUN, UNLOCK], "it is on record before anybody may take it"


# --- a state topic that does not exist ---------------------------------------------------------

GONE = {"fails": AppendRecord, "error": TopicNotFound("no such topic", code=17)}


def test_without_a_state_topic_the_offset_is_saved_and_the_rest_told_to_be_off_the_record():
    broker, fence, memory = Broker(**GONE), Fence(5), Memory()
    with pytest.raises(NotOnRecord, match="does not exist") as raised:
        converse(commit(QUEUE, CommitProgress(7, AHEAD), fence, memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE, SaveOffset(QUEUE, 7)]
    assert (fence.written, broker.stored) == (7, 7)
    assert not isinstance(raised.value, LockLost | NotAvailableYet), "the queue is still ours"


def test_without_a_state_topic_and_with_nothing_for_it_a_commit_is_a_commit():
    memory = Memory()
    converse(commit(QUEUE, CommitProgress(7, AHEAD), Fence(5), memory, now=NOW), Broker())
    converse(commit(QUEUE, CommitProgress(7, AHEAD), Fence(5), memory, now=NOW), Broker(**GONE))


def test_without_a_state_topic_a_queue_is_handed_on_with_its_offset():
    broker, memory = Broker(**GONE), Memory()
    refusal = converse(hand_on(QUEUE, CommitProgress(7, AHEAD), Fence(5), memory, now=NOW), broker)
    assert isinstance(refusal, NotOnRecord)
    assert broker.asked == [QUERY, STATE, SaveOffset(QUEUE, 7), UNLOCK]
    assert not memory.closed


def test_a_source_topic_that_does_not_exist_is_no_missing_record():
    broker = Broker(fails=SaveOffset, error=TopicNotFound("no such topic", code=17))
    with pytest.raises(TopicNotFound):
        converse(commit(QUEUE, CommitProgress(7, AHEAD), Fence(5), Memory(), now=NOW), broker)


# --- handing on --------------------------------------------------------------------------------


def test_handing_on_saves_before_it_unlocks():
    broker = Broker()
    assert converse(hand_on(QUEUE, CommitProgress(7), Fence(5), None, now=NOW), broker) is None
    assert broker.asked == [QUERY, SaveOffset(QUEUE, 7), UNLOCK]


def test_handing_on_what_is_saved_only_unlocks():
    broker = Broker()
    converse(hand_on(QUEUE, None, Fence(5), None, now=NOW), broker)
    assert broker.asked == [UNLOCK]


def test_a_clean_end_is_noted_once_the_offset_is_saved_and_before_the_unlock():
    broker, memory = Broker(), Memory()
    converse(hand_on(QUEUE, CommitProgress(7, AHEAD), Fence(5), memory, now=NOW), broker)
    assert broker.asked == [QUERY, STATE, SaveOffset(QUEUE, 7), CLOSED, UNLOCK]
    assert memory.noted[-1] == (7, 7, AHEAD)


@pytest.mark.parametrize("error", [RequestTimeout("late"), BrokerBusy("busy", code=2)], ids=repr)
@pytest.mark.parametrize("fails", [QueryOffset, AppendRecord, SaveOffset])
def test_what_may_succeed_later_keeps_the_lock(fails, error):
    broker = Broker(fails=fails, error=error)
    with pytest.raises(type(error)):
        converse(hand_on(QUEUE, CommitProgress(7), Fence(5), Memory(), now=NOW), broker)
    assert UNLOCK not in broker.asked


def test_a_final_refusal_is_reported_and_the_queue_unlocked():
    refusal = BrokerError("no such topic", code=17)
    broker = Broker(fails=SaveOffset, error=refusal)
    assert converse(hand_on(QUEUE, CommitProgress(7), Fence(5), None, now=NOW), broker) is refusal
    assert broker.asked[-1] == UNLOCK


def test_an_offset_that_somebody_set_and_that_we_go_on_from_is_no_error():
    """A reset: the broker has set it already, and told us."""
    broker, memory = Broker(stored=2), Memory()
    assert (
        converse(hand_on(QUEUE, CommitProgress(2, moved=True), Fence(5), memory, now=NOW), broker)
        is None
    )
    assert SaveOffset(QUEUE, 2) not in broker.asked
    assert memory.closed, "what was finished ahead before is off the record"


def test_somebody_elses_progress_to_our_own_offset_is_somebody_elses():
    """What they finished ahead of it we do not know."""
    with pytest.raises(LockLost):
        converse(commit(QUEUE, CommitProgress(7), Fence(5), Memory(), now=NOW), Broker(stored=7))


def test_somebody_elses_progress_is_reported_and_the_queue_unlocked():
    broker = Broker(stored=6)
    refusal = converse(hand_on(QUEUE, CommitProgress(7), Fence(5), Memory(), now=NOW), broker)
    assert isinstance(refusal, LockLost)
    assert broker.asked == [QUERY, UNLOCK]


def test_an_unlock_without_an_answer_is_an_error_and_doing_it_again_is_right():
    broker, fence, memory = Broker(fails=UnlockQueues), Fence(5), Memory()
    with pytest.raises(RequestTimeout):
        converse(hand_on(QUEUE, CommitProgress(7), fence, memory, now=NOW), broker)
    broker.fails = None
    assert converse(hand_on(QUEUE, CommitProgress(7), fence, memory, now=NOW), broker) is None
    assert broker.asked.count(CLOSED) == 1
    assert broker.asked[-1] == UNLOCK
