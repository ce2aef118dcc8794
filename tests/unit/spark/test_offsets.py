"""Ranges, losses, JSON and positions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark import offsets as offsets_json
from orderly.spark.offsets import (
    CUT,
    EXPIRED,
    GONE,
    Edge,
    ExactPosition,
    GroupPosition,
    Loss,
    OffsetSpan,
    QueueRange,
    TimePosition,
    data_lost,
    millis_of,
    parse_moment,
    parse_offsets,
    readable,
    split,
)

RANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 5000)), min_size=1, max_size=8
).map(
    lambda spans: [
        QueueRange(MessageQueue("orders", "broker-a", place), start, start + size)
        for place, (start, size) in enumerate(spans)
    ]
)


def offsets(ranges):
    return [(each.queue, at) for each in ranges for at in range(each.start, each.end)]


@given(RANGES, st.integers(1, 40))
def test_parts_cover_each_offset_once_and_in_order(ranges, at_least):
    assert offsets(split(ranges, at_least)) == offsets(ranges)


@given(RANGES, st.integers(1, 200))
def test_there_are_as_many_parts_as_asked_for_and_hardly_more(ranges, at_least):
    parts = split(ranges, at_least)
    messages = sum(each.messages for each in ranges)
    assert min(at_least, messages) <= len(parts) < at_least + len(ranges)
    assert all(part.messages > 0 for part in parts)


@given(RANGES, st.integers(1, 40))
def test_no_part_is_much_larger_than_its_share(ranges, at_least):
    messages = sum(each.messages for each in ranges)
    assert all(part.messages <= messages / at_least + 1 for part in split(ranges, at_least))


def test_nobody_asked_a_part_a_queue():
    ranges = [QueueRange(MessageQueue("orders", "a", n), 0, 10**n) for n in range(4)]
    assert split(ranges) == ranges


def test_empty_ranges_have_no_parts():
    queue = MessageQueue("orders", "broker-a", 0)
    assert split([QueueRange(queue, 7, 7), QueueRange(queue, 9, 3)], 4) == []


# --- losses ---------------------------------------------------------------------------------------


QUEUE = MessageQueue("orders", "broker-a", 3)
NUMBERS = st.integers(0, 30)

CASES = {
    "all there": ((10, 20), (0, 30), (10, 20), []),
    "the first ones expired": ((10, 20), (15, 30), (15, 20), [(10, 15, EXPIRED)]),
    "all expired": ((10, 20), (25, 30), (20, 20), [(10, 20, EXPIRED)]),
    "the log was cut": ((10, 20), (0, 14), (10, 14), [(14, 20, CUT)]),
    "made anew": ((10, 20), (0, 3), (10, 10), [(10, 20, CUT)]),
    "both": ((10, 20), (12, 17), (12, 17), [(10, 12, EXPIRED), (17, 20, CUT)]),
    "gone": ((10, 20), None, (20, 20), [(10, 20, GONE)]),
    "nothing wanted": ((10, 10), (50, 60), (10, 10), []),
    "nothing wanted of a queue that is gone": ((10, 10), None, (10, 10), []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_can_be_read_and_what_is_lost(case):
    wanted, span, kept, lost = case
    found = readable(QueueRange(QUEUE, *wanted), OffsetSpan(*span) if span else None)
    assert found == (QueueRange(QUEUE, *kept), tuple(Loss(QUEUE, *each) for each in lost))


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_every_offset_is_read_or_lost(start, size, low, held):
    wanted, span = QueueRange(QUEUE, start, start + size), OffsetSpan(low, low + held)
    kept, losses = readable(wanted, span)
    parts = [set(range(kept.start, kept.end))]
    parts += [set(range(loss.start, loss.end)) for loss in losses]
    assert sum(map(len, parts)) == wanted.messages
    assert set().union(*parts) == set(range(wanted.start, wanted.end))
    assert all(span.low <= at < span.high for at in parts[0])


def test_the_error_names_queues_ranges_and_what_to_do():
    losses = [Loss(MessageQueue("orders", "a", n), 0, n + 1, EXPIRED) for n in range(8)]
    text = str(data_lost(losses))
    assert text.startswith("36 messages that were to be read are lost: orders/a/7 [0, 8): expired")
    assert "3 more queues" in text
    assert "failOnDataLoss=false" in text


# --- JSON -----------------------------------------------------------------------------------------


QUEUES = st.builds(
    MessageQueue, st.sampled_from(["a", "b%c"]), st.sampled_from(["x", "y"]), st.integers(0, 300)
)


@given(st.dictionaries(QUEUES, st.integers(-2, 2**62)))
def test_offsets_come_back(offsets):
    assert offsets_json.load_offsets(offsets_json.dump_offsets(offsets)) == offsets


@given(st.sets(QUEUES, min_size=1))
def test_queues_come_back(queues):
    assert offsets_json.load_queues(offsets_json.dump_queues(queues)) == queues


def test_the_shape():
    offsets = {MessageQueue("orders", "a", 10): 5, MessageQueue("orders", "a", 9): -2}
    assert json.loads(offsets_json.dump_offsets(offsets)) == {"orders": {"a": {"9": -2, "10": 5}}}


BAD = {
    '{"orders": ': "not JSON",
    "[]": r"the whole is \[\]",
    '{"orders": 5}': "orders is 5",
    '{"orders": {"a": [1]}}': r"orders/a is \[1\]",
    '{"orders": {"a": {"x": 1}}}': 'orders/a/x is "x"',
    '{"orders": {"a": {"-1": 1}}}': "orders/a/-1",
    '{"orders": {"a": {"0": -3}}}': "orders/a/0 is -3",
    '{"orders": {"a": {"0": true}}}': "orders/a/0 is true",
    '{"orders": {"a": {"0": 1.5}}}': "orders/a/0 is 1.5",
    '{"orders": {"a": {"0": 1, "0": 2}}}': "twice",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_offsets_are_refused_with_place_and_shape(text):
    with pytest.raises(ConfigError, match=BAD[text]) as refused:
        offsets_json.load_offsets(text, "startingOffsets")
    assert str(refused.value).startswith("startingOffsets")
    assert '{"topic": {"broker": {"0": 123}}}' in str(refused.value)


@pytest.mark.parametrize(
    "text", ["{}", '{"t": {"b": []}}', '{"t": {"b": ["0"]}}', '{"t": [1]}', "x"]
)
def test_bad_queues_are_refused(text):
    with pytest.raises(ConfigError, match=r'\{"topic": \{"broker": \[0, 1\]\}\}'):
        offsets_json.load_queues(text)


# --- positions ------------------------------------------------------------------------------------


OTHER_QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def parsed(text):
    return parse_offsets(text, "startingOffsets", Edge.EARLIEST)


def test_words_and_groups():
    assert parsed(" Earliest ") is Edge.EARLIEST
    assert parsed("latest") is Edge.LATEST
    assert parsed("group:shipping") == GroupPosition("shipping")


@pytest.mark.parametrize(
    ("offset", "meant"), [(-2, Edge.EARLIEST), (-1, Edge.LATEST), (0, 0), (7, 7)]
)
def test_json_with_the_ends_as_numbers(offset, meant):
    position = parsed(f'{{"orders": {{"a": {{"0": {offset}}}}}}}')
    assert position == ExactPosition({OTHER_QUEUE: offset}, Edge.EARLIEST)
    assert position.of(OTHER_QUEUE) == meant


def test_a_queue_not_named_has_the_default():
    assert parsed('{"orders": {"a": {"0": 5}}}').of(OTHER) is Edge.EARLIEST


@pytest.mark.parametrize("text", ["", "first", "-2", "group:", "group:a b", "123"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError):
        parsed(text)


def test_times_are_iso_8601_or_milliseconds():
    assert parse_moment("1763712000123", "t") == TimePosition(1763712000123)
    assert parse_moment("2025-11-21T08:00:00.123Z", "t") == TimePosition(1763712000123)
    assert parse_moment("2025-11-21T10:00:00+02:00", "t") == TimePosition(1763712000000)


@pytest.mark.parametrize("text", ["1763712000", "20251121", "-5", "", "yesterday", "9" * 20])
def test_what_may_be_meant_as_seconds_or_a_date_is_refused(text):
    with pytest.raises(ConfigError, match="milliseconds"):
        parse_moment(text, "startingTimestamp")


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=5)))))
def test_a_time_between_two_milliseconds_is_the_later_one(moment):
    back = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis_of(moment))
    assert timedelta(0) <= back - moment < timedelta(milliseconds=1)
