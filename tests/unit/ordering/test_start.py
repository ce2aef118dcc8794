"""Where a queue begins that nobody knows, and where one that was taken over goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import OrderlyError, RequestTimeout, TopicNotFound
from orderly.ordering.broker_calls import (
    FirstLook,
    MinOffset,
    OffsetAtTime,
    OffsetReset,
    Peek,
    Peeked,
    QueryOffset,
    SaveOffset,
    converse,
)
from orderly.ordering.fence import Landmark
from orderly.ordering.new_group import NewGroup
from orderly.ordering.start import (
    FormerPosition,
    Start,
    StartPosition,
    depends_on_group,
    find_start,
    start_of,
)
from tests.support.owners import APART, BORN, QUEUE, StateBroker

# --- start ----------------------------------------------------------------------------------------
# The table of start positions, and the dialogue that finds a queue's start.


MOMENT = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("consume_from", "new", "start"),
    [
        ("first", True, Start.MIN),
        ("last", True, Start.END),
        (MOMENT, True, Start.TIME),
        ("first", False, Start.MIN),
        ("last", False, Start.MIN),
        (MOMENT, False, Start.MIN),
    ],
)
def test_table(consume_from, new, start):
    assert start_of(consume_from, new=new) is start


@pytest.mark.parametrize(
    ("consume_from", "topic", "depends"),
    [
        ("first", "orders", False),
        ("last", "orders", True),
        (MOMENT, "orders", True),
        ("first", "%RETRY%g", False),
        ("last", "%RETRY%g", False),
        (MOMENT, "%RETRY%g", False),
    ],
)
def test_what_it_matters_for_if_the_group_is_new(consume_from, topic, depends):
    assert depends_on_group(consume_from, topic) == depends


class Broker:
    """Answers calls from a dict; an exception in it is raised. Records what was asked.

    Args:
        answers: by type of call.
        forgets: how many saved offsets it acknowledges and loses.
    """

    def __init__(self, answers, forgets=0):
        self.answers = answers
        self.forgets = forgets
        self.asked = []

    def __call__(self, call):
        self.asked.append(call)
        answer = self.answers.get(type(call))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(call, Peek):
            return Peeked(stored_at=1000 + call.offset, end=9)
        if isinstance(call, MinOffset):
            return answer or 0
        if isinstance(call, SaveOffset):
            self.forgets -= 1
            if self.forgets < 0:
                self.answers[QueryOffset] = call.offset
        return answer


LAST = Peeked(1006, 7)  # message 6, when the member looked
NEW = NewGroup({QUEUE: LAST})
OTHERS = NewGroup({replace(QUEUE, queue_id=1): LAST})  # the topic got our queue later
FILLED = NewGroup({QUEUE: Peeked(BORN + 99 * APART, 100)})


def test_a_committed_offset_wins_and_zero_is_one():
    broker = Broker({QueryOffset: 0})
    assert converse(find_start(QUEUE, "last"), broker) == StartPosition(0)
    assert broker.asked == [QueryOffset(QUEUE)]


@pytest.mark.parametrize(
    ("consume_from", "calls", "passed_over"),
    [
        ("first", [MinOffset(QUEUE)], None),
        ("last", [FirstLook(QUEUE), MinOffset(QUEUE), Peek(QUEUE, 6)], (0, 7)),
        (MOMENT, [FirstLook(QUEUE), MinOffset(QUEUE), OffsetAtTime(QUEUE, MOMENT)], (0, 7)),
    ],
)
def test_the_start_of_a_new_group_is_computed_once_and_committed_first(
    consume_from, calls, passed_over
):
    broker = Broker({QueryOffset: None, FirstLook: NEW, type(calls[-1]): 7})
    found = converse(find_start(QUEUE, consume_from), broker)
    assert found == StartPosition(7, Landmark(6, 1006), passed_over=passed_over)
    committed = [SaveOffset(QUEUE, 7), QueryOffset(QUEUE)]
    assert broker.asked == [QueryOffset(QUEUE), *calls, *committed, Peek(QUEUE, 6)]


@pytest.mark.parametrize("new_group", [None, OTHERS], ids=["known group", "later queue"])
@pytest.mark.parametrize("consume_from", ["last", MOMENT])
def test_a_queue_that_a_known_group_has_not_begun_begins_with_its_first_message(
    consume_from, new_group
):
    broker = Broker({QueryOffset: None, FirstLook: new_group, MinOffset: 3})
    found = converse(find_start(QUEUE, consume_from), broker)
    assert found == StartPosition(3, Landmark(2, 1002))
    asked = [QueryOffset(QUEUE), FirstLook(QUEUE), MinOffset(QUEUE)]
    assert broker.asked == [*asked, SaveOffset(QUEUE, 3), QueryOffset(QUEUE), Peek(QUEUE, 2)]


def test_what_was_sent_since_the_member_looked_is_not_skipped():
    assert begin(same(end=500), None, None, new_group=FILLED).start == 100


@pytest.mark.parametrize(
    ("log", "last", "start"),
    [
        ("same", Peeked(None, 0), 0),  # the queue was empty
        ("same", Peeked(None, 100), 100),  # or had no message any more
        ("cut", Peeked(BORN + 99 * APART, 100), 100),  # the first pull is told
        ("anew", Peeked(BORN + 99 * APART, 100), 5),
        ("anew", Peeked(None, 0), 0),
    ],
)
def test_an_end_that_was_seen_in_a_former_generation_counts_for_nothing(log, last, start):
    broker = {"same": same(), "cut": same(end=60), "anew": anew(end=300, minimum=5)}[log]
    assert begin(broker, None, None, new_group=NewGroup({QUEUE: last})).start == start


@pytest.mark.parametrize("forgets", [1, 2])
def test_a_start_that_the_broker_lost_is_committed_again(forgets):
    broker = Broker({QueryOffset: None, FirstLook: NEW, OffsetAtTime: 7}, forgets)
    assert converse(find_start(QUEUE, MOMENT), broker).start == 7
    assert broker.asked.count(SaveOffset(QUEUE, 7)) == forgets + 1
    assert broker.asked.count(OffsetAtTime(QUEUE, MOMENT)) == 1


def test_nothing_is_pulled_from_a_start_that_is_not_kept():
    broker = Broker({QueryOffset: None, FirstLook: NEW}, forgets=99)
    with pytest.raises(OrderlyError, match="acknowledged offset 7"):
        converse(find_start(QUEUE, "last"), broker)


@pytest.mark.parametrize("failing", [QueryOffset, FirstLook, MinOffset, SaveOffset, Peek])
def test_any_failure_is_an_error_and_never_a_guess(failing):
    answers = {QueryOffset: None, FirstLook: NEW} | {failing: RequestTimeout("late")}
    with pytest.raises(RequestTimeout):
        converse(find_start(QUEUE, "last"), Broker(answers))


# --- handover -------------------------------------------------------------------------------------
# Where a queue goes on: what the broker has, what is known of the former owner, what the log says.
# `test_start.py` has the dialogue where nothing is known.


OLD = StateBroker(end=100)  # the log as the former owner knew it
MARK = OLD.landmark(39)
KNOWN = FormerPosition(
    40, MARK, window=(25, 30, 35, 90)
)  # 90: of a former generation, or set back since
RECORD = replace(KNOWN, latest=True)  # by key
SECOND = replace(RECORD, anew=True)  # of a topic that was made anew before
BLIND = FormerPosition(40, window=(25, 90))  # nothing is known that could prove anything


def same(minimum=0, end=100):
    """The log that the former owner knew, or what is left of it."""
    return StateBroker(minimum=minimum, end=end)


def anew(end, minimum=0):
    """A log of the next generation."""
    broker = StateBroker(end=100)
    broker.made_anew(end, minimum)
    return broker


def begin(broker, stored, known, consume_from="last", new_group=None):
    broker.offset, broker.new_group = stored, new_group
    found = converse(find_start(QUEUE, consume_from, known), broker.performer("me@1"))
    assert broker.offset == found.start, "what it goes on with is committed"
    return found


@pytest.mark.parametrize(
    ("stored", "known", "log", "start", "what"),
    [
        # the same topic: the committed offset is what counts
        (40, KNOWN, same(), 40, "stored"),
        (35, KNOWN, same(), 35, "stored"),  # a broker that was killed; `resume` looks at the window
        (0, KNOWN, same(), 0, "stored"),  # an operator's reset
        (12, KNOWN, same(), 12, "stored"),
        (70, KNOWN, same(), 70, "stored"),  # progress, or a reset
        (100, KNOWN, same(), 100, "stored"),
        (40, KNOWN, same(minimum=40), 40, "stored"),
        (40, KNOWN, same(minimum=60), 40, "stored"),  # expired: the first pull is told
        (40, BLIND, same(), 40, "stored"),
        (12, BLIND, same(), 12, "stored"),
        (70, RECORD, same(), 70, "stored"),  # progress with nothing ahead needs no record
        (12, RECORD, same(), 12, "stored"),
        # the same topic, with an offset that its owner had committed before a lower one
        (90, KNOWN, same(), 90, "stored"),  # set back once, and progress since
        (90, RECORD, same(), 90, "stored"),
        (90, BLIND, same(), 90, "stored"),
        (90, SECOND, same(), 40, "forgotten"),  # it may be the former topic's
        (70, SECOND, same(), 70, "stored"),
        # a log that was cut, at a slave that took over
        (40, KNOWN, same(end=40), 40, "stored"),
        (60, KNOWN, same(end=60), 60, "stored"),
        (70, KNOWN, same(end=60), 70, "stored"),  # another owner's: the first pull is told
        (70, RECORD, same(end=60), 40, "forgotten"),  # beyond it: what is known has messages
        (70, BLIND, same(end=60), 70, "stored"),
        (90, KNOWN, same(end=60), 40, "forgotten"),
        (40, KNOWN, same(end=30), 40, "forgotten"),  # the first pull is told
        (70, KNOWN, same(end=30), 70, "stored"),
        # a broker that forgot it, or never had it
        (None, KNOWN, same(), 40, "forgotten"),
        (None, BLIND, same(), 40, "forgotten"),
        (None, KNOWN, same(minimum=60), 40, "forgotten"),
        (None, KNOWN, same(end=30), 40, "forgotten"),
        (None, FormerPosition(0), same(), 0, "forgotten"),
        # made anew: deleted with its offsets
        (None, KNOWN, anew(end=0), 0, "recreated"),
        (None, KNOWN, anew(end=10), 0, "recreated"),
        (None, KNOWN, anew(end=200), 0, "recreated"),
        (None, KNOWN, anew(end=200, minimum=5), 5, "recreated"),
        (None, KNOWN, anew(end=200, minimum=40), 40, "forgotten"),  # cannot be proven
        (None, BLIND, anew(end=200), 40, "forgotten"),  # cannot be noticed
        # made anew, and an offset of the former generation was committed
        (40, KNOWN, anew(end=0), 0, "recreated"),
        (40, KNOWN, anew(end=10), 0, "recreated"),  # beyond the new log
        (40, KNOWN, anew(end=40), 0, "recreated"),
        (40, KNOWN, anew(end=200), 0, "recreated"),  # within it
        (35, KNOWN, anew(end=200), 0, "recreated"),
        (70, KNOWN, anew(end=60), 0, "recreated"),
        (90, KNOWN, anew(end=200), 0, "recreated"),
        (40, KNOWN, anew(end=200, minimum=40), 40, "stored"),  # cannot be proven
        (90, KNOWN, anew(end=200, minimum=40), 90, "stored"),
        (40, BLIND, anew(end=200), 40, "stored"),
        (90, BLIND, anew(end=200), 90, "stored"),
        # made anew, and an operator or another program has set an offset there
        (0, KNOWN, anew(end=200), 0, "recreated"),
        (12, KNOWN, anew(end=200), 12, "recreated"),
        (70, KNOWN, anew(end=200), 70, "recreated"),
        # by key it would be on record: it may be what a killed broker brought back
        (None, RECORD, anew(end=200), 0, "recreated"),
        (40, RECORD, anew(end=200), 0, "recreated"),
        (12, RECORD, anew(end=200), 0, "recreated"),
        (70, RECORD, anew(end=200), 0, "recreated"),
        (90, RECORD, anew(end=200), 0, "recreated"),
        (3, RECORD, anew(end=200, minimum=5), 5, "recreated"),
        # made anew, and whoever found it out has committed the minimum, which was committed before
        (0, FormerPosition(40, MARK, window=(0, 20)), anew(end=0), 0, "recreated"),
        (0, FormerPosition(40, MARK, window=(0, 20)), anew(end=200), 0, "recreated"),
        (0, FormerPosition(0, MARK), anew(end=200), 0, "recreated"),
        (5, FormerPosition(40, MARK, window=(5, 20)), anew(end=200, minimum=5), 5, "recreated"),
        (0, FormerPosition(40, MARK, window=(0, 20)), same(), 0, "stored"),
    ],
)  # fmt: skip
def test_table_of_positions(stored, known, log, start, what):
    found = begin(log, stored, known)
    assert found.start == start
    assert found.forgotten == (what == "forgotten")
    assert found.former == (known.offset if what == "recreated" else None)
    assert found.passed_over is None


def test_what_the_broker_has_costs_one_look_below_it_and_one_at_the_landmark():
    broker = same()
    begin(broker, 70, KNOWN)
    assert broker.calls == [QueryOffset(QUEUE), Peek(QUEUE, 69), Peek(QUEUE, 39)]


def test_where_nothing_is_known_there_is_no_landmark_to_look_at():
    broker = same()
    begin(broker, 40, None)
    begin(broker, 40, BLIND)
    assert broker.calls == [QueryOffset(QUEUE), Peek(QUEUE, 39)] * 2


@pytest.mark.parametrize("stored", [None, 0, 12, 35, 40, 70, 90, 150])
@pytest.mark.parametrize("known", [KNOWN, RECORD])
@pytest.mark.parametrize("error", [TopicNotFound("gone"), RequestTimeout("late")])
@pytest.mark.parametrize("failing", [Peek, MinOffset])
def test_while_the_generation_is_not_known_nothing_is_committed(stored, known, error, failing):
    broker = anew(end=200)
    broker.offset = stored

    def perform(call):
        if isinstance(call, failing):
            raise error
        return broker.answer(call, "me@1")

    with pytest.raises(type(error)):
        converse(find_start(QUEUE, "first", known), perform)
    assert broker.offset == stored


def test_the_message_below_is_the_landmark():
    assert begin(same(), 40, None).landmark == OLD.landmark(39)
    assert begin(same(), 70, KNOWN).landmark == OLD.landmark(69)


@pytest.mark.parametrize(
    ("log", "stored"), [(same(minimum=60), 0), (same(minimum=60), 40), (same(minimum=60), None)]
)
def test_where_none_is_below_there_is_none_until_the_first_pull(log, stored):
    """What was known may be of a former generation: that was not proven, nor disproven."""
    assert begin(log, stored, KNOWN).landmark is None


@pytest.mark.parametrize("stored", [0, 100, None])
def test_where_none_is_below_the_known_one_counts_if_it_is_still_there(stored):
    """A log was cut above it, say: a topic that is recreated then must not look the same."""
    assert begin(same(end=50), stored, replace(KNOWN, offset=100)).landmark == KNOWN.landmark


def test_a_landmark_of_the_former_generation_never_counts_in_the_new_one():
    broker = anew(end=200)
    assert begin(broker, None, KNOWN).landmark is None
    broker = anew(end=200)
    assert begin(broker, 12, KNOWN).landmark == broker.landmark(11)


def test_what_a_late_start_passes_over_is_told():
    assert begin(same(minimum=3), None, None, new_group=FILLED) == StartPosition(
        100, OLD.landmark(99), passed_over=(3, 100)
    )
    assert begin(same(minimum=3), None, None, "first", FILLED).passed_over is None
    assert begin(same(minimum=3), None, None).passed_over is None


def test_what_is_known_decides_whatever_the_consumer_would_begin_with():
    """The start was chosen once; a second choice would skip what was sent in between."""
    for consume_from in ("first", "last"):
        for new_group in (None, FILLED):
            assert begin(same(), None, KNOWN, consume_from, new_group).start == 40


def test_a_start_that_is_known_is_committed_and_read_back():
    broker = same()
    begin(broker, None, KNOWN)
    read_back = [SaveOffset(QUEUE, 40), QueryOffset(QUEUE)]
    assert [c for c in broker.calls if isinstance(c, QueryOffset | SaveOffset)] == [
        QueryOffset(QUEUE),
        *read_back,
    ]


@pytest.mark.parametrize(
    ("known", "log", "stored"),
    [
        (None, same(), 12),
        (KNOWN, same(), 12),
        (KNOWN, same(), 90),
        (SECOND, same(), 90),  # without the word of the broker it may be the former topic's
        (RECORD, anew(end=200), 12),
        (KNOWN, anew(end=200), 40),
    ],
)
def test_an_offset_of_which_the_broker_says_that_it_was_reset_counts_whatever_is_known(
    known, log, stored
):
    log.offset, told = stored, []

    def perform(call):
        if isinstance(call, Peek) and not told:
            told.append(call)
            raise OffsetReset(QUEUE, stored)
        return log.answer(call, "me@1")

    found = converse(find_start(QUEUE, "last", known), perform)
    assert (found.start, found.reset, log.offset) == (stored, True, stored)
    assert not begin(log, stored, known).reset, "who is not told does not know"


@given(
    stored=st.none() | st.integers(0, 150),
    low=st.integers(1, 100),
    window=st.lists(st.integers(0, 100), max_size=3),
    latest=st.booleans(),
    minimum=st.integers(0, 100),
    left=st.integers(1, 150),
)
def test_in_one_generation_what_is_stored_counts_if_nobody_had_it_before(
    stored, low, window, latest, minimum, left
):
    """Whatever the broker has deleted and lost, if it has anything."""
    known = FormerPosition(low, OLD.landmark(low - 1), tuple(window), latest=latest)
    log = same(minimum, minimum + left)
    found = begin(log, stored, known)
    assert found.former is None
    known_here = latest or stored in known.sent
    counts = stored is not None and (stored <= log.end or stored == 0 or not known_here)
    assert found.start == (stored if counts else low)
    assert found.forgotten == (not counts)


@given(
    stored=st.none() | st.integers(0, 150),
    low=st.integers(1, 100),
    window=st.lists(st.integers(0, 100), max_size=3),
    latest=st.booleans(),
    minimum=st.integers(0, 50),
    end=st.integers(0, 150),
)
def test_in_the_next_generation_nothing_is_passed_over_but_by_an_offset_set_there(
    stored, low, window, latest, minimum, end
):
    """By queue: by key, where `latest`, nothing at all."""
    known = FormerPosition(low, OLD.landmark(low - 1), tuple(window), latest=latest)
    log = anew(minimum=minimum, end=max(minimum, end))
    found = begin(log, stored, known)
    if minimum >= low:
        assert found.former is None, "cannot be proven"
    elif stored is None or latest or stored in known.sent:
        assert (found.start, found.former) == (minimum, low)
    elif stored > log.end:
        assert (found.start, found.former) == (minimum, low), "it is of no message of this one"
    else:
        assert (found.start, found.former) == (stored, low)
