"""A summary is what reading message by message gives, wherever the messages are split."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.offsets.losses import Loss
from orderly.spark.summary import SCHEMA, needed, summarize
from orderly.spark.summary.combining import combine
from tests.support.summaries import (
    QUEUE,
    assert_same,
    by_key,
    in_batches,
    messages,
    one_by_one,
)

ENDS = (-(2**63), 2**63 - 1)  # where a difference does not fit
NUMBERS = st.integers(-3, 6) | st.sampled_from(ENDS)
KEYS = st.sampled_from(["a", "b", "c", "", None])
IDS = st.sampled_from(["u1", "u2", "u3", None])
NUMBERED = st.lists(st.tuples(KEYS, st.none() | NUMBERS, IDS), max_size=30)
BORN = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 4), IDS), max_size=30)
SIZES = st.lists(st.integers(0, 5), max_size=8)


@given(rows=NUMBERED, sizes=SIZES, chunk=st.integers(1, 12), held=st.integers(1, 12))
def test_numbers_are_summarised_alike_however_they_are_split(rows, sizes, chunk, held):
    out = summarize(QUEUE, in_batches(rows, sizes), seq_property="seq", chunk=chunk, held=10**6)
    assert_same(by_key(out), one_by_one(rows))
    pieces = list(summarize(QUEUE, in_batches(rows, sizes), seq_property="seq",
                            chunk=chunk, held=held))  # fmt: skip
    if pieces:
        assert_same(by_key([combine(pieces, by_seq=True)]), one_by_one(rows))


@given(rows=BORN, sizes=SIZES, chunk=st.integers(1, 12), held=st.integers(1, 12))
def test_births_are_summarised_alike_however_they_are_split(rows, sizes, chunk, held):
    pieces = list(summarize(QUEUE, in_batches(rows, sizes, ""), chunk=chunk, held=held))
    whole = [combine(pieces, by_seq=False)] if pieces else []
    assert_same(by_key(whole), one_by_one(rows, ""))


@given(rows=NUMBERED.filter(bool), cuts=st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_neighbours_combine_in_any_order_of_combining(rows, cuts):
    low, high = sorted(cuts)
    parts = [
        batch
        for start, end in ((0, low), (low, high), (high, len(rows)))
        if rows[start:end]
        for batch in summarize(QUEUE, [messages(rows[start:end], start=start)], seq_property="seq")
    ]
    left = combine([combine(parts[:-1] or parts, by_seq=True), *parts[-1:][: len(parts) - 1]],
                   by_seq=True)  # fmt: skip
    right = combine([*parts[:1][: len(parts) - 1], combine(parts[1:] or parts, by_seq=True)],
                    by_seq=True)  # fmt: skip
    assert by_key([left]) == by_key([right])
    assert_same(by_key([left]), one_by_one(rows))


def test_no_messages_give_no_summary():
    assert list(summarize(QUEUE, [], seq_property="seq")) == []
    assert list(summarize(QUEUE, [messages([])], seq_property="seq")) == []


def test_a_summary_says_where_and_when_it_begins_and_ends():
    rows = [("a", 1, None), (None, None, None), ("a", 2, None)]
    found = by_key(summarize(QUEUE, [messages(rows, start=5)], seq_property="seq"))
    assert {name: found["a"][name] for name in SCHEMA.names[:3]} == {
        "topic": "flights",
        "broker": "broker-a",
        "queue_id": 3,
    }
    assert (found["a"]["first_offset"], found["a"]["last_offset"]) == (5, 7)
    assert found["a"]["first_store_ts"] == datetime.fromtimestamp(0.005, UTC)
    assert found["a"]["last_store_ts"] == datetime.fromtimestamp(0.007, UTC)
    assert found[None]["n"] == 1


def test_what_was_lost_meanwhile_is_a_row_of_its_own():
    losses = []

    def read():
        losses.append(Loss(QUEUE, 10, 25, "expired"))
        yield messages([("a", 1, None)])

    *_, last = summarize(QUEUE, read(), seq_property="seq", losses=losses)
    (row,) = last.to_pylist()
    assert last.schema == SCHEMA
    assert (row["key"], row["n"], row["lost"]) == (None, 0, 15)
    assert (row["first_offset"], row["last_offset"]) == (10, 24)


def test_many_keys_are_given_away_before_the_end():
    rows = [(f"key-{number}", 1, None) for number in range(40)]
    pieces = list(summarize(QUEUE, in_batches(rows, [4] * 10), seq_property="seq",
                            chunk=4, held=8))  # fmt: skip
    assert len(pieces) > 2
    assert_same(by_key(pieces), one_by_one(rows))


def test_births_are_judged_to_the_millisecond():
    batch = messages([("a", 1, "x"), ("a", 1, "y")], "")
    earlier = pa.array([1_900, 1_100]).cast(pa.timestamp("us", tz="UTC"))
    batch = batch.set_column(batch.schema.get_field_index("born_ts"), "born_ts", earlier)
    assert by_key(summarize(QUEUE, [batch]))["a"]["falls"] == 0


@pytest.mark.parametrize(
    ("seq_property", "judged"), [("n", ("seq",)), ("", ("born_ts", "uniq_key"))]
)
def test_only_the_columns_that_are_judged_are_read(seq_property, judged):
    assert needed(seq_property) == ("sharding_key", "queue_offset", "store_ts", *judged)
