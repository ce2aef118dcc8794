"""Where a queue goes on: what the broker has, what is known of the former owner, what the log says.

`test_start.py` has the dialogue where nothing is known.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.calls import Peek, QueryOffset, SaveOffset, converse
from orderly.ordering.handover import Begin, Known, find_start
from tests.support.state_queue import QUEUE, StateBroker

OLD = StateBroker(end=100)  # the log as the former owner knew it
MARK = OLD.landmark(39)
KNOWN = Known(40, MARK, window=(25, 30, 35))
BLIND = Known(40)  # nothing is known that could prove anything


def same(minimum=0, end=100):
    """The log that the former owner knew, or what is left of it."""
    return StateBroker(minimum=minimum, end=end)


def anew(end, minimum=0):
    """A log of the next generation."""
    broker = StateBroker(end=100)
    broker.made_anew(end, minimum)
    return broker


def begin(broker, stored, known, consume_from="last"):
    broker.offset = stored
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
        # a log that was cut, at a slave that took over
        (40, KNOWN, same(end=40), 40, "stored"),
        (70, KNOWN, same(end=60), 70, "stored"),  # the first pull is told
        (40, KNOWN, same(end=30), 40, "stored"),
        (70, BLIND, same(end=60), 70, "stored"),
        # a broker that forgot it, or never had it
        (None, KNOWN, same(), 40, "forgotten"),
        (None, BLIND, same(), 40, "forgotten"),
        (None, KNOWN, same(minimum=60), 40, "forgotten"),
        (None, KNOWN, same(end=30), 40, "forgotten"),
        (None, Known(0), same(), 0, "forgotten"),
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
        # made anew, and an operator or another program has set an offset there
        (0, KNOWN, anew(end=200), 0, "recreated"),
        (12, KNOWN, anew(end=200), 12, "recreated"),
        # made anew, and whoever found it out has committed the minimum, which was committed before
        (0, Known(40, MARK, window=(0, 20)), anew(end=0), 0, "recreated"),
        (0, Known(40, MARK, window=(0, 20)), anew(end=200), 0, "recreated"),
        (0, Known(0, MARK), anew(end=200), 0, "recreated"),
        (5, Known(40, MARK, window=(5, 20)), anew(end=200, minimum=5), 5, "recreated"),
        (0, Known(40, MARK, window=(0, 20)), same(), 0, "stored"),
    ],
)  # fmt: skip
def test_table(stored, known, log, start, what):
    found = begin(log, stored, known)
    assert found.start == start
    assert found.forgotten == (what == "forgotten")
    assert found.former == (known.offset if what == "recreated" else None)
    assert found.passed_over is None


def test_what_the_broker_has_costs_one_look_below_it():
    broker = same()
    begin(broker, 40, KNOWN)
    assert broker.calls == [QueryOffset(QUEUE), Peek(QUEUE, 39)]


def test_the_message_below_is_the_landmark():
    assert begin(same(), 40, None).landmark == OLD.landmark(39)
    assert begin(same(), 70, KNOWN).landmark == OLD.landmark(69)


def test_where_none_is_below_what_was_known_stays_the_landmark():
    assert begin(same(), 0, KNOWN).landmark == MARK
    assert begin(same(minimum=60), 40, KNOWN).landmark == MARK
    assert begin(same(minimum=60), None, KNOWN).landmark == MARK


def test_a_landmark_of_the_former_generation_never_counts_in_the_new_one():
    broker = anew(end=200)
    assert begin(broker, None, KNOWN).landmark is None
    broker = anew(end=200)
    assert begin(broker, 12, KNOWN).landmark == broker.landmark(11)


def test_what_a_late_start_passes_over_is_told():
    assert begin(same(minimum=3), None, None) == Begin(100, OLD.landmark(99), passed_over=(3, 100))
    assert begin(same(minimum=3), None, None, "first").passed_over is None


def test_what_is_known_decides_whatever_the_consumer_would_begin_with():
    """The start was chosen once; a second choice would skip what was sent in between."""
    for consume_from in ("first", "last"):
        assert begin(same(), None, KNOWN, consume_from).start == 40


def test_a_start_that_is_known_is_committed_and_read_back():
    broker = same()
    begin(broker, None, KNOWN)
    read_back = [SaveOffset(QUEUE, 40), QueryOffset(QUEUE)]
    assert [c for c in broker.calls if isinstance(c, QueryOffset | SaveOffset)] == [
        QueryOffset(QUEUE),
        *read_back,
    ]


@given(
    stored=st.none() | st.integers(0, 150),
    low=st.integers(1, 100),
    window=st.lists(st.integers(0, 100), max_size=3),
    minimum=st.integers(0, 100),
    left=st.integers(1, 150),
)
def test_in_one_generation_nothing_that_is_stored_is_moved_and_nothing_unknown_is_passed(
    stored, low, window, minimum, left
):
    """Whatever the broker has deleted and lost, if it has anything."""
    known = Known(low, OLD.landmark(low - 1), tuple(window))
    found = begin(same(minimum, minimum + left), stored, known)
    assert found.former is None
    assert found.start == (low if stored is None else stored)


@given(
    stored=st.none() | st.integers(0, 150),
    low=st.integers(1, 100),
    window=st.lists(st.integers(0, 100), max_size=3),
    minimum=st.integers(0, 50),
    end=st.integers(0, 150),
)
def test_in_the_next_generation_nothing_is_passed_over_but_by_an_offset_set_there(
    stored, low, window, minimum, end
):
    known = Known(low, OLD.landmark(low - 1), tuple(window))
    log = anew(minimum=minimum, end=max(minimum, end))
    found = begin(log, stored, known)
    if minimum >= low:
        assert found.former is None, "cannot be proven"
    elif stored is None or known.sent(stored):
        assert (found.start, found.former) == (minimum, low)
    elif stored > log.end:
        assert (found.start, found.former) == (minimum, low), "it is of no message of this one"
    else:
        assert found.start == stored
