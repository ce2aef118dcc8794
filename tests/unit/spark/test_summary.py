"""A summary is what reading message by message gives, wherever the messages are split."""

from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.spark.columns import arrow_schema
from orderly.spark.offsets import Loss
from orderly.spark.summary import SCHEMA, needed, summarize

# Messages as a source reads them, and their summaries the slow way: one message after another.


QUEUE = MessageQueue("flights", "broker-a", 3)
MARKED = "u3"  # the id of messages that are marked
COUNTS = ("n", "judged", "falls", "repeats", "jumps", "lost")


def messages(rows, seq_property="seq", start=0):
    """A batch as the source reads it.

    Args:
        rows: (key, number, id) of each; with a property the number is the sequence, else the
            millisecond of birth. Offsets and times of storing count up from `start`.
    """
    keys, numbers, ids = zip(*rows, strict=True) if rows else ((), (), ())
    offsets = list(range(start, start + len(rows)))
    columns = {
        "sharding_key": keys,
        "queue_offset": offsets,
        "store_ts": [offset * 1000 for offset in offsets],
        "seq": numbers,
        "born_ts": [number and number * 1000 for number in numbers],
        "uniq_key": ids,
        "attempt": [2 if each == MARKED else None for each in ids],
    }
    names = needed(seq_property)
    schema = arrow_schema(names)
    fields = [field.with_nullable(True) for field in schema]  # a birth may be missing in tests
    arrays = [pa.array(columns[f.name], pa.int64()).cast(f.type) if f.type != pa.string()
              else pa.array(columns[f.name], f.type) for f in fields]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def in_batches(rows, sizes, seq_property="seq"):
    """The same messages in batches of these sizes; the last takes what is left."""
    start = 0
    for size in [*sizes, len(rows)]:
        yield messages(rows[start : start + size], seq_property, start)
        start = min(start + size, len(rows))


def one_by_one(rows, seq_property="seq"):
    """What the summary of each key must be, by reading its definition aloud."""
    places = defaultdict(list)
    for offset, row in enumerate(rows):
        places[row[0]].append((offset, *row[1:]))
    return {key: _of_key(key, mine, by_seq=bool(seq_property)) for key, mine in places.items()}


def _of_key(key, mine, *, by_seq):
    judged = [row for row in mine if row[1] is not None and key is not None]
    pairs = list(pairwise(judged))
    numbers = [row[1] for row in judged]
    same = 1 if by_seq else 2
    return {
        "n": len(mine),
        "judged": len(judged),
        "first_offset": mine[0][0],
        "last_offset": mine[-1][0],
        "first_seq": numbers[0] if numbers else None,
        "last_seq": numbers[-1] if numbers else None,
        "min_seq": min(numbers, default=None),
        "max_seq": max(numbers, default=None),
        "falls": sum(after[1] < before[1] for before, after in pairs),
        "repeats": sum(
            after[same] is not None and after[same] == before[same] for before, after in pairs
        ),
        "jumps": sum(after[1] > before[1] + 1 for before, after in pairs) if by_seq else 0,
        "marked": 0 if by_seq else sum(row[2] == MARKED for row in judged),
        "lost": 0,
    }


def by_key(batches):
    """Summaries as `one_by_one` gives them; fails if a key has two."""
    found = {}
    for batch in batches:
        assert batch.schema == SCHEMA
        batch.validate(full=True)
        for row in batch.to_pylist():
            assert row["key"] not in found
            found[row["key"]] = row
    return found


def assert_same(found, expected):
    """Compare what `one_by_one` says; `found` may say more."""
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert {name: found[key][name] for name in row} == row


ENDS = (-(2**63), 2**63 - 1)  # where a difference does not fit
NUMBERS = st.integers(-3, 6) | st.sampled_from(ENDS)
KEYS = st.sampled_from(["a", "b", "c", "", None])
IDS = st.sampled_from(["u1", "u2", "u3", None])
NUMBERED = st.lists(st.tuples(KEYS, st.none() | NUMBERS, IDS), max_size=30)
BORN = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 4), IDS), max_size=30)
SIZES = st.lists(st.integers(0, 5), max_size=8)


@given(rows=NUMBERED, sizes=SIZES)
def test_numbers_are_summarised_alike_however_they_are_split(rows, sizes):
    out = summarize(QUEUE, in_batches(rows, sizes), seq_property="seq")
    assert_same(by_key(out), one_by_one(rows))


@given(rows=BORN, sizes=SIZES)
def test_births_are_summarised_alike_however_they_are_split(rows, sizes):
    assert_same(by_key(summarize(QUEUE, in_batches(rows, sizes, ""))), one_by_one(rows, ""))


@given(rows=NUMBERED, chunk=st.integers(1, 12))
def test_a_summary_covers_no_more_messages_than_a_chunk(rows, chunk):
    one_each = in_batches(rows, [1] * len(rows))
    pieces = list(summarize(QUEUE, one_each, seq_property="seq", chunk=chunk))
    assert len(pieces) == -(-len(rows) // chunk)
    for start, piece in zip(range(0, len(rows), chunk), pieces, strict=True):
        expected = one_by_one(rows[start : start + chunk])
        for row in expected.values():
            row["first_offset"] += start
            row["last_offset"] += start
        assert_same(by_key([piece]), expected)


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


def test_births_are_judged_to_the_millisecond():
    batch = messages([("a", 1, "x"), ("a", 1, "y")], "")
    earlier = pa.array([1_900, 1_100]).cast(pa.timestamp("us", tz="UTC"))
    batch = batch.set_column(batch.schema.get_field_index("born_ts"), "born_ts", earlier)
    assert by_key(summarize(QUEUE, [batch]))["a"]["falls"] == 0


@pytest.mark.parametrize(
    ("seq_property", "judged"), [("n", ("seq",)), ("", ("born_ts", "uniq_key", "attempt"))]
)
def test_only_the_columns_that_are_judged_are_read(seq_property, judged):
    assert needed(seq_property) == ("sharding_key", "queue_offset", "store_ts", *judged)
