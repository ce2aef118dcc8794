"""Rows become requests as the producer makes them, or are refused."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orderly.errors import InvalidMessage, OrderlyError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.producer.pending import MessageIds, check_message, properties_text
from orderly.protocol.properties import decode_properties
from orderly.protocol.send import decode_batch, parse_unique_key, unique_key
from orderly.selectors import hash_mod, numeric_mod
from orderly.spark.access import Access
from orderly.spark.encoding import (
    KEY_SAMPLE,
    Encoder,
    KeyOrder,
    key_sample,
    read_rows,
    recognition_ids,
    scattered,
    unique_keys,
)
from orderly.spark.stamps import ID, SEQ
from orderly.spark.write_plan import Roles, WritePlan


def ids(rows, partition=0, first=0):
    """The ids of (key, number, body)."""
    keys, numbers, bodies = zip(*rows, strict=True)
    batch = pa.record_batch(
        {
            "key": pa.array(keys, pa.string()),
            "seq": pa.array(numbers, pa.int64()),
            "body": pa.array(bodies, pa.binary()),
        }
    )
    roles = Roles(body="body", key="key", order="seq")
    return recognition_ids(read_rows(batch, roles, partition, first)).cast(pa.string()).to_pylist()


ROW = st.tuples(st.none() | st.text("ab", max_size=3), st.integers(-2, 300), st.binary(max_size=3))


@given(st.lists(ROW, min_size=1, unique=True))
def test_different_rows_have_different_ids_wherever_they_are(rows):
    found = ids(rows)
    assert len(set(found)) == len(rows)
    assert found == [ids([row], partition=3, first=7)[0] for row in rows]


def test_ids_are_those_of_every_release():
    assert ids([("customer-1", 7, b"paid"), (None, -1, b"x")]) == [
        "cc8bc78b75c93a799010406bba69ec36",
        "e3b56083c2f76fb56ffd48600ae2ff67",
    ]


def test_unique_keys_are_written_as_the_producer_writes_them():
    of_producer = unique_key(bytes([10, 0, 0, 1]), 5, 6, 1_795_255_200.0, 0xFFFE)
    made = unique_keys(of_producer[:-4], 0xFFFE, 3).cast(pa.string()).to_pylist()
    assert made[0] == of_producer
    assert [parse_unique_key(text).counter for text in made] == [0xFFFE, 0xFFFF, 0]


def test_unique_keys_of_one_moment_differ():
    made = unique_keys("0" * 28, 12_345, 65_536).cast(pa.string())
    assert len(np.unique(made.to_numpy(zero_copy_only=False))) == 65_536


# --- the order of keys: a row that falls behind is found, wherever the batches were cut -----------


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 6)))


def check(order, rows):
    """Give rows to `order` as a task does."""
    keys = list(dict.fromkeys(key for key, _ in rows))
    codes = np.array([keys.index(key) for key, _ in rows], np.int64)
    return order.check(keys, codes, np.array([number for _, number in rows], np.int64))


def first_fall(rows, unique):
    """The same by brute force."""
    last = {}
    for row, (key, number) in enumerate(rows):
        before = last.get(key)
        if before is not None and (number < before or (unique and number == before)):
            return row
        last[key] = number
    return None


@given(ROWS, st.booleans(), st.data())
def test_the_first_fall_is_found_however_the_rows_are_cut(rows, unique, data):
    order, start, found = KeyOrder(unique=unique), 0, None
    while start < len(rows) and found is None:
        end = data.draw(st.integers(start + 1, len(rows)))
        fall = check(order, rows[start:end])
        found = None if fall is None else start + fall.row
        start = end
    assert found == first_fall(rows, unique)


def test_a_fall_says_what_was_before():
    order = KeyOrder(unique=False)
    assert check(order, [("a", 5), ("b", 1), ("a", 5)]) is None
    fall = check(order, [("b", 2), ("a", 4)])
    assert (fall.row, fall.before, fall.number) == (1, 5, 4)


@pytest.mark.parametrize("numbers", [(2**63 - 1, -(2**63)), (0, -(2**63))])
def test_numbers_at_the_ends_of_their_range_are_compared_right(numbers):
    first, second = numbers
    assert check(KeyOrder(unique=True), [("a", first), ("a", second)]) is not None
    assert check(KeyOrder(unique=True), [("a", second), ("a", first)]) is None


def test_all_keys_are_remembered():
    order = KeyOrder(unique=True)
    check(order, [("a", 1), ("b", 1)])
    check(order, [("c", 1)])
    assert sorted(order.keys) == ["a", "b", "c"]


# --- a key in two partitions is seen at the end, however many keys there are ----------------------


def test_keys_of_one_partition_each_are_not_scattered():
    assert scattered([key_sample(["a", "b"]), key_sample(["c"]), key_sample([])]) == 0
    assert scattered([]) == 0


def test_a_key_in_two_partitions_is_counted_once():
    samples = [key_sample(["a", "b", "c"]), key_sample(["b"]), key_sample(["b", "c"])]
    assert scattered(samples) == 2


def test_rows_in_one_order_are_one_key():
    assert scattered([key_sample([None]), key_sample([None])]) == 1


def test_a_sample_is_bounded_and_two_tasks_choose_alike():
    one = [f"key-{number}" for number in range(100_000)]
    other = [f"key-{number}" for number in range(50_000, 150_000)]
    samples = [key_sample(one), key_sample(other)]
    assert [len(sample) for sample in samples] == [KEY_SAMPLE, KEY_SAMPLE]
    assert scattered(samples) > KEY_SAMPLE / 3  # half of the keys are shared


def test_numbers_and_texts_are_keys():
    assert scattered([key_sample([1, -1]), key_sample([1])]) == 1


# --- whole columns are encoded as the producer encodes one message after the other ----------------


ALL = Roles(
    body="body", key="key", order="seq", tag="tag", keys="keys", properties="properties", id="id"
)
FIELDS = pa.schema(
    {
        "key": pa.string(),
        "seq": pa.int64(),
        "body": pa.binary(),
        "tag": pa.string(),
        "keys": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "id": pa.string(),
    }
)
TEXT = st.text(st.sampled_from("aZé€😀 |"), min_size=1, max_size=5)
NASTY = st.text(st.sampled_from("a \x01\x02|é"), max_size=4)


def encoder(roles, selector="hash_mod", queues=3, limit=1 << 20, partition=0):
    plan = WritePlan(Access(), "t", "b:3", selector, roles, limit)
    return Encoder(plan, partition, queues, MessageIds("10.0.0.1@1#x"))


def encoded(pieces, queues=3):
    """The messages of each queue: (body, properties)."""
    found = [[] for _ in range(queues)]
    for piece in pieces:
        members = decode_batch(bytes(piece.data))
        assert len(members) == piece.rows
        found[piece.place] += [
            (member.body, decode_properties(member.properties.encode())) for member in members
        ]
    return found


def rows_of(texts):
    """Rows for FIELDS with numbers in order."""
    return st.lists(
        st.fixed_dictionaries(
            {
                "key": texts,
                "body": st.binary(min_size=1, max_size=9),
                "tag": st.none() | texts,
                "keys": st.none() | texts,
                "properties": st.none() | st.dictionaries(texts, texts, max_size=2),
                "id": texts,
            }
        ),
        min_size=1,
        max_size=6,
    ).map(lambda rows: [row | {"seq": number} for number, row in enumerate(rows)])


def batch_of(rows):
    return pa.RecordBatch.from_pylist(
        [
            row | {"properties": row["properties"] and list(row["properties"].items())}
            for row in rows
        ],
        FIELDS,
    )


def as_the_producer(row):
    """Its checks and its text for the same message; raises InvalidMessage."""
    given = {ID: row["id"], SEQ: str(row["seq"]), **(row["properties"] or {})}
    if row["keys"] is not None:
        given["words"] = row["keys"]  # sent as they are
    message = Message("t", row["body"], row["key"], row["tag"], (), given)
    check_message(message, 4 << 20)
    properties = decode_properties(properties_text(message, "0" * 32).encode())
    if "words" in properties:
        properties["KEYS"] = properties.pop("words")
    return properties


@settings(max_examples=60)
@given(rows_of(TEXT), st.integers(1, 5))
def test_every_message_is_what_the_producer_would_send(rows, queues):
    assume(all(row["tag"] is None or row["tag"] == row["tag"].strip() for row in rows))
    assume(all("||" not in (row["tag"] or "") for row in rows))
    found = encoded(encoder(ALL, queues=queues).encode(batch_of(rows)), queues)
    places = tuple(MessageQueue("t", "b", number) for number in range(queues))
    expected = [[] for _ in places]
    for row in rows:
        place = hash_mod(places, Message("t", b"x"), row["key"]).queue_id
        expected[place].append((row["body"], as_the_producer(row)))
    ids = [properties.pop("UNIQ_KEY") for queue in found for _, properties in queue]
    for queue in expected:
        for _, properties in queue:
            del properties["UNIQ_KEY"]
    assert found == expected
    assert len(set(ids)) == len(rows)
    assert {len(each) for each in ids} == {32}


@settings(max_examples=150)
@given(rows_of(NASTY))
def test_what_the_producer_refuses_is_refused_with_its_row(rows):
    bad = next((number for number, row in enumerate(rows) if _refused(row)), None)
    if bad is None:
        list(encoder(ALL).encode(batch_of(rows)))
        return
    with pytest.raises(InvalidMessage, match=f"row {bad} of partition 9: "):
        list(encoder(ALL, partition=9).encode(batch_of(rows)))


def _refused(row):
    try:
        as_the_producer(row)
    except InvalidMessage:
        return True
    return False


def one(**columns):
    """A batch of one or more rows of key, seq, body and what is given."""
    size = len(next(iter(columns.values())))
    usual = {"key": ["k"] * size, "seq": list(range(size)), "body": [b"x"] * size}
    return pa.record_batch({**{n: pa.array(v) for n, v in usual.items()}, **columns})


def refusal(batch, **roles):
    with pytest.raises(OrderlyError) as error:
        list(encoder(Roles(body="body", key="key", order="seq", **roles)).encode(batch))
    return str(error.value)


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("key", pa.array(["k", None]), "the key is null"),
        ("body", pa.array([b"x", None]), "the body must be bytes"),
        ("body", pa.array([b"x", b""]), "the body must be bytes"),
        ("body", pa.array([b"x", b"x" * (4 << 20)]), "at most 4193280"),
        ("seq", pa.array([1, None]), "'seq', its place in the order, is null"),
        ("id", pa.array(["x", None]), "the id is null"),
        ("tag", pa.array([None, ""]), "property 'TAGS'"),
        ("tag", pa.array([None, "a||b"]), "tags must be one tag"),
        ("keys", pa.array(["x", "\x02"]), "property 'KEYS'"),
        ("keys", pa.array(["x", "x" * 33_000]), "the properties take"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(column, values, told):
    roles = {column: column} if column in ("id", "tag", "keys") else {}
    found = refusal(one(**{column: values}), **roles)
    assert found.startswith("row 1 of partition 0: ")
    assert told in found


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (("UNIQ_KEY", "x"), "RocketMQ uses the property names"),
        ((ID, "x"), "the property ORDERLY_ID is the sink's own"),
        (("a", None), "the value must be a non-empty str"),
        (("", "x"), "the name must be a non-empty str"),
    ],
)
def test_a_property_that_cannot_be_sent_is_named_by_its_row(entry, told):
    column = pa.array([[], [entry]], pa.map_(pa.string(), pa.string()))
    found = refusal(one(properties=column), properties="properties")
    assert found.startswith("row 1 of partition 0: ")
    assert told in found


def test_text_that_is_not_utf8_is_named_by_its_row():
    raw = pa.array([b"fine", b"\xff"])
    broken = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    assert refusal(one(tag=broken), tag="tag").startswith("row 1 of partition 0: ")


def test_rows_are_counted_over_batches():
    task = encoder(Roles(body="body", key="key", order="seq"))
    list(task.encode(one(seq=pa.array([1, 2, 3]))))
    with pytest.raises(InvalidMessage, match="row 4 of partition 0: key 'k' goes back from seq 4"):
        list(task.encode(one(seq=pa.array([4, 1]))))


def test_a_number_that_repeats_needs_ids():
    batch = one(seq=pa.array([1, 1]), id=pa.array(["x", "y"]))
    assert "key 'k' has seq 1 twice" in refusal(batch.drop_columns(["id"]))
    assert list(encoder(Roles(body="body", key="key", order="seq", id="id")).encode(batch))


def test_requests_are_cut_at_their_limit_and_nothing_is_lost_or_moved():
    bodies = [bytes([number]) * (1000 if number % 7 else 70_000) for number in range(1, 90)]
    batch = one(body=pa.array(bodies))
    pieces = list(encoder(Roles(body="body", key="key", order="seq"), limit=65_536).encode(batch))
    assert len(pieces) > 10
    assert all(len(piece.data) <= 65_536 or piece.rows == 1 for piece in pieces)
    assert [body for queue in encoded(pieces) for body, _ in queue] == bodies


def test_what_waits_for_one_queue_keeps_nothing_of_the_others_in_memory():
    """One broker that is away must not make a task hold the bytes of all of them."""
    batch = one(body=pa.array([b"x" * 100_000] * 60))
    task = encoder(Roles(body="body", key="key", order="seq", id=None), "single_queue")
    before = pa.total_allocated_bytes()
    first = next(iter(task.encode(batch)))
    assert first.rows == 10
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_large_bodies_are_encoded_in_parts():
    batch = one(body=pa.array([bytes([number]) * 1_000_000 for number in range(1, 21)]))
    task = encoder(Roles(body="body", key="key", order="seq"))
    bodies = [body for queue in encoded(task.encode(batch)) for body, _ in queue]
    assert [body[0] for body in bodies] == list(range(1, 21))
    assert task.rows == 20


@pytest.mark.parametrize("start", [0, 3])
def test_a_slice_of_a_batch_is_encoded_as_such(start):
    maps = pa.array([[("n", str(n))] for n in range(6)], pa.map_(pa.string(), pa.string()))
    batch = one(body=pa.array([b"%d" % n for n in range(6)]), properties=maps).slice(start, 2)
    roles = Roles(body="body", key="key", order="seq", properties="properties")
    (found,) = [queue for queue in encoded(encoder(roles).encode(batch)) if queue]
    assert [(body, given["n"]) for body, given in found] == [
        (b"%d" % n, str(n)) for n in range(start, start + 2)
    ]


def test_numbers_are_placed_by_value_under_numeric_mod_and_sent_as_text():
    batch = one(key=pa.array([-1, 7, 3], pa.int32()))
    roles = Roles(body="body", key="key", order="seq")
    found = encoded(encoder(roles, "numeric_mod").encode(batch))
    places = tuple(MessageQueue("t", "b", number) for number in range(3))
    for key in (-1, 7, 3):
        place = numeric_mod(places, Message("t", b"x"), key).queue_id
        assert str(key) in [given["__SHARDINGKEY"] for _, given in found[place]]


def test_one_queue_takes_rows_without_a_key_and_keeps_one_order():
    roles = Roles(body="body", key="key", order="seq")
    batch = one(key=pa.array(["a", None, "b"]))
    (found, *others) = encoded(encoder(roles, "single_queue").encode(batch))
    assert [given.get("__SHARDINGKEY") for _, given in found] == ["a", None, "b"]
    assert others == [[], []]
    with pytest.raises(InvalidMessage, match="the rows go back from seq 2 to 1"):
        list(encoder(roles, "single_queue").encode(one(seq=pa.array([2, 1]))))


def test_round_robin_takes_each_queue_in_turn():
    roles = Roles(body="body", id="id")
    batch = one(id=pa.array(["a", "b", "c", "d"])).drop_columns(["key", "seq"])
    found = encoded(encoder(roles, "round_robin").encode(batch))
    assert [[given[ID] for _, given in queue] for queue in found] == [["a", "d"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("column", "number"),
    [
        (pa.array([1795255200000001], pa.timestamp("us", "UTC")), "1795255200000001"),
        (pa.array([date(2026, 11, 21)]), "20778"),
        (pa.array([-5], pa.int8()), "-5"),
    ],
)
def test_the_place_in_order_is_sent_as_a_number(column, number):
    roles = Roles(body="body", key="key", order="seq")
    (found,) = [q for q in encoded(encoder(roles).encode(one(seq=column))) if q]
    assert found[0][1][SEQ] == number
