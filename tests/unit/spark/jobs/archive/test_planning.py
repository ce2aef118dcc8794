"""What a run of an archive reads: from where the last one ended, whatever happened meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.spark.jobs.archive.planning import Planned, gone, plan, steps
from orderly.spark.offsets.losses import Span
from orderly.spark.offsets.ranges import QueueRange

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def planned(asked, stored, reached):
    """(covered start, covered end, lost) of one queue; None: left out."""
    found = plan([QueueRange(ONE, *asked)], {ONE: Span(*stored)}, reached)
    return (found[0].covered.start, found[0].covered.end, found[0].lost) if found else None


@pytest.mark.parametrize(
    ("asked", "stored", "reached", "expected"),
    [
        ((10, 50), (10, 50), {}, (10, 50, 0)),  # the first run begins where it is told
        ((30, 50), (10, 50), {}, (30, 50, 0)),
        ((10, 50), (10, 50), {ONE: 40}, (40, 50, 0)),
        ((10, 50), (10, 50), {ONE: 50}, None),  # nothing new
        ((45, 50), (45, 50), {ONE: 40}, (40, 50, 5)),  # expired meanwhile
        ((60, 60), (60, 60), {ONE: 40}, (40, 60, 20)),  # all of it
        ((10, 45), (10, 50), {ONE: 48}, None),  # told to end before what is archived
        ((10, 45), (44, 50), {ONE: 40}, (40, 45, 4)),
        ((3, 9), (3, 9), {TWO: 7}, (0, 9, 3)),  # younger than the archive: wanted from 0 on
        ((5, 5), (5, 5), {}, (5, 5, 0)),  # nothing there yet: where it begins is on record
        ((5, 5), (5, 5), {TWO: 7}, (0, 5, 5)),
    ],
)
def test_the_table_of_cases(asked, stored, reached, expected):
    assert planned(asked, stored, reached) == expected


def test_a_topic_made_anew_is_refused():
    with pytest.raises(OrderlyError, match="made anew"):
        planned((0, 5), (0, 5), {ONE: 6})


def test_queues_that_nobody_lists_are_told():
    assert gone([QueueRange(ONE, 0, 1)], {ONE: 1, TWO: 3}) == [TWO]


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 300), st.integers(0, 300)),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 200),
)
def test_steps_lie_end_to_end_and_leave_nothing_out(spans, most):
    whole = [
        Planned(QueueRange(MessageQueue("t", "b", n), start, start + lost + count), lost)
        for n, (start, lost, count) in enumerate(spans)
    ]
    at = {each.covered.queue: each.covered.start for each in whole}
    taken = steps(whole, most)
    assert len(taken[0]) == len(whole), "the first names every queue"
    for step in taken:
        assert sum(each.readable.messages for each in step) <= most + len(whole)
        for each in step:
            assert each.covered.start == at[each.covered.queue]
            at[each.covered.queue] = each.covered.end
    assert at == {each.covered.queue: each.covered.end for each in whole}
    assert sum(each.lost for step in taken for each in step) == sum(each.lost for each in whole)


def test_nothing_to_do_is_no_step():
    assert steps((), 10) == [()]
