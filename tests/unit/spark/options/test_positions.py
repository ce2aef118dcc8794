from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.options.positions import (
    Committed,
    Edge,
    Exact,
    Moment,
    millis_of,
    parse_moment,
    parse_offsets,
)

QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def parse(text):
    return parse_offsets(text, "startingOffsets", Edge.EARLIEST)


def test_words_and_groups():
    assert parse(" Earliest ") is Edge.EARLIEST
    assert parse("latest") is Edge.LATEST
    assert parse("group:shipping") == Committed("shipping")


@pytest.mark.parametrize(
    ("offset", "meant"), [(-2, Edge.EARLIEST), (-1, Edge.LATEST), (0, 0), (7, 7)]
)
def test_json_with_the_ends_as_numbers(offset, meant):
    position = parse(f'{{"orders": {{"a": {{"0": {offset}}}}}}}')
    assert position == Exact({QUEUE: offset}, Edge.EARLIEST)
    assert position.of(QUEUE) == meant


def test_a_queue_not_named_has_the_default():
    assert parse('{"orders": {"a": {"0": 5}}}').of(OTHER) is Edge.EARLIEST


@pytest.mark.parametrize("text", ["", "first", "-2", "group:", "group:a b", "123"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError):
        parse(text)


def test_times_are_iso_8601_or_milliseconds():
    assert parse_moment("1763712000123", "t") == Moment(1763712000123)
    assert parse_moment("2025-11-21T08:00:00.123Z", "t") == Moment(1763712000123)
    assert parse_moment("2025-11-21T10:00:00+02:00", "t") == Moment(1763712000000)


@pytest.mark.parametrize("text", ["1763712000", "20251121", "-5", "", "yesterday", "9" * 20])
def test_what_may_be_meant_as_seconds_or_a_date_is_refused(text):
    with pytest.raises(ConfigError, match="milliseconds"):
        parse_moment(text, "startingTimestamp")


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=5)))))
def test_a_time_between_two_milliseconds_is_the_later_one(moment):
    back = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis_of(moment))
    assert timedelta(0) <= back - moment < timedelta(milliseconds=1)
