from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.spark.offsets import QueueRange
from orderly.spark.readers import Comparison, Condition, Pushdown, narrow

NOON = datetime(2025, 11, 21, 12, tzinfo=UTC)
COMPARE = {
    Comparison.BELOW: lambda a, b: a < b,
    Comparison.UP_TO: lambda a, b: a <= b,
    Comparison.FROM: lambda a, b: a >= b,
    Comparison.ABOVE: lambda a, b: a > b,
    Comparison.IN: lambda a, b: a in b,
}


def narrowed(*conditions):
    return reduce(lambda sofar, each: narrow(sofar, each)[0], conditions, Pushdown())


def equal(column, *values):
    return Condition(column, Comparison.IN, values)


OFFSET_CONDITIONS = st.builds(
    lambda op, value: Condition("queue_offset", op, (value,)),
    st.sampled_from([Comparison.BELOW, Comparison.UP_TO, Comparison.FROM, Comparison.ABOVE]),
    st.integers(-3, 30),
) | st.builds(lambda values: equal("queue_offset", *values), st.lists(st.integers(-3, 30)))


def holds(condition, offset):
    right = condition.values if condition.op is Comparison.IN else condition.values[0]
    return COMPARE[condition.op](offset, right)


@given(st.lists(OFFSET_CONDITIONS, max_size=4))
def test_no_offset_that_fits_is_spared_and_honoured_ones_need_no_second_look(conditions):
    honoured = [each for each in conditions if narrow(Pushdown(), each)[1]]
    ranges = narrowed(*conditions).cut([QueueRange(MessageQueue("t", "a", 0), 0, 30)])
    read = {at for each in ranges for at in range(each.start, each.end)}
    assert {at for at in range(30) if all(holds(c, at) for c in conditions)} <= read
    assert all(holds(each, at) for each in honoured for at in read)


def test_queues_by_topic_broker_and_id():
    queues = [MessageQueue(t, b, n) for t in ("t", "u") for b in ("a", "b") for n in (0, 1)]
    some = narrowed(equal("broker", "a", "c"), equal("queue_id", 0, 1), equal("queue_id", 1, None))
    assert [queue for queue in queues if some.takes(queue)] == [
        MessageQueue("t", "a", 1),
        MessageQueue("u", "a", 1),
    ]
    assert not any(narrowed(equal("topic", "x")).takes(queue) for queue in queues)


@pytest.mark.parametrize("micros", [0, 1, 500, 999])
@pytest.mark.parametrize(
    "op", [Comparison.BELOW, Comparison.UP_TO, Comparison.FROM, Comparison.ABOVE]
)
def test_no_store_time_that_fits_is_spared(op, micros):
    value = NOON + timedelta(microseconds=micros)
    limits, honoured = narrow(Pushdown(), Condition("store_ts", op, (value,)))
    assert not honoured
    noon = round(NOON.timestamp() * 1000)
    for millis in (noon - 1, noon, noon + 1):
        stored = NOON + timedelta(milliseconds=millis - noon)
        if COMPARE[op](stored, value):
            assert limits.since is None or millis >= limits.since
            assert limits.until is None or millis < limits.until


def test_two_times_leave_what_lies_between():
    late = Condition("store_ts", Comparison.FROM, (NOON,))
    early = Condition("store_ts", Comparison.BELOW, (NOON - timedelta(hours=1),))
    found = narrowed(late, early)
    assert found.since > found.until


def test_tags_go_to_the_broker_if_they_can_be_said_there():
    assert narrowed(equal("tag", "b", "a", None)).tags() == "a||b"
    assert narrowed(equal("tag", "a b")).tags() == "*"
    assert narrowed(equal("tag", "a||b")).tags() == "*"
    assert narrowed(equal("sharding_key", "k")).tags() == "*"
    assert narrowed(equal("tag", "a"), equal("tag", "b")).tags() == "*"


def test_texts_are_left_to_the_reader_and_others_to_spark():
    both = narrowed(equal("sharding_key", "k", "l"), equal("sharding_key", "l", "m"))
    assert both.texts() == {"sharding_key": frozenset({"l"})}
    for condition in (equal("seq", 5), equal("body", b"x"), Condition("seq", Comparison.THERE)):
        assert narrow(Pushdown(), condition) == (Pushdown(), False)
    assert narrow(Pushdown(), Condition("queue_id", Comparison.THERE)) == (Pushdown(), True)
    tagged = narrowed(equal("tag", "a"))
    assert narrow(tagged, Condition("tag", Comparison.THERE)) == (tagged, True)
