"""Columns of keys go where the producer's selectors send each key."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors import KEYED, RoundRobin, java_string_hash, numeric_mod
from orderly.spark import placing

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LONGS = st.integers(-(2**63), 2**63 - 1)


def queues(count):
    return tuple(MessageQueue("t", "b", number) for number in range(count))


def one_by_one(selector, keys, count):
    message = Message("t", b"x")
    return [selector(queues(count), message, key).queue_id for key in keys]


@given(st.lists(LONGS), st.integers(1, 64))
def test_numbers_are_placed_as_by_numeric_mod(keys, count):
    numbers = placing.numeric_numbers(pa.array(keys, pa.int64()))
    assert placing.places(numbers, count).tolist() == one_by_one(numeric_mod, keys, count)


HASHING = sorted(KEYED.keys() - {"numeric_mod"})


def test_every_selector_of_the_table_has_its_numbers_and_places():
    assert list(placing.NUMBERS) == list(placing.PLACES) == list(KEYED)


@pytest.mark.parametrize("name", HASHING)
@given(st.lists(st.one_of(TEXTS, st.text("ab", max_size=300))), st.integers(1, 64))
def test_texts_are_placed_as_by_the_selector(name, keys, count):
    numbers = placing.NUMBERS[name](pa.array(keys, pa.string()))
    placed = placing.PLACES[name](numbers, count)
    assert (placed.dtype, placed.tolist()) == (
        np.int64, one_by_one(KEYED[name].selector, keys, count),
    )  # fmt: skip


@pytest.mark.parametrize("name", HASHING)
@given(st.lists(LONGS), st.integers(1, 64))
def test_numbers_are_placed_by_their_decimal_text(name, keys, count):
    numbers = placing.NUMBERS[name](pa.array(keys, pa.int64()))
    assert placing.PLACES[name](numbers, count).tolist() == one_by_one(
        KEYED[name].selector, keys, count
    )


@pytest.mark.parametrize("name", HASHING)
def test_the_golden_vectors_hold_for_columns_too(name):
    golden = json.loads((Path(__file__).parents[1] / "selectors" / "placements.json").read_text())
    numbers = placing.NUMBERS[name](pa.array([row["key"] for row in golden["keys"]]))
    for at, count in enumerate(golden["queues"]):
        expected = [row[name][at] for row in golden["keys"]]
        assert placing.PLACES[name](numbers, count).tolist() == expected


@pytest.mark.parametrize("name", HASHING)
def test_blocks_and_slices_do_not_matter(name):
    keys = [f"kündin-{number}" for number in range(40_000)] + ["x" * 9000]
    numbers = placing.NUMBERS[name](pa.array(keys).slice(30_000))
    again = placing.NUMBERS[name](pa.array(keys[30_000:]))
    assert np.array_equal(numbers, again)
    rows = [0, 2767, 2768, 10_000]
    assert placing.PLACES[name](numbers[rows], 64).tolist() == one_by_one(
        KEYED[name].selector, [keys[30_000 + row] for row in rows], 64
    )


@pytest.mark.parametrize(
    "key",
    ["", "polygenelubricants", "😀", "\U0010ffff", "é", "€", "\0", "x" * 100_000, "😀x" * 9999],
)
def test_a_key_alone_and_among_others_has_javas_hash(key):
    expected = abs(java_string_hash(key))
    assert placing.hash_numbers(pa.array([key])).tolist() == [expected]
    among = placing.hash_numbers(pa.array(["é", key, "", key, "😀"]))
    assert among[1] == among[3] == expected


def test_the_hash_whose_absolute_value_overflows_in_java_is_placed():
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert placing.hash_numbers(pa.array(["polygenelubricants"])).tolist() == [2**31]


@given(st.lists(TEXTS, min_size=3), st.data())
def test_a_slice_of_a_column_is_placed_as_the_whole(keys, data):
    start = data.draw(st.integers(0, len(keys)))
    column = pa.array(keys, pa.string())
    assert np.array_equal(
        placing.hash_numbers(column.slice(start)), placing.hash_numbers(column)[start:]
    )


def test_more_keys_than_are_worked_on_at_once():
    keys = [f"kündin-{number}" for number in range(70_000)]
    numbers = placing.hash_numbers(pa.array(keys))
    assert numbers[[0, 32_767, 32_768, 69_999]].tolist() == [
        abs(java_string_hash(keys[row])) for row in (0, 32_767, 32_768, 69_999)
    ]


def test_large_strings_and_short_integers_are_keys_too():
    assert np.array_equal(
        placing.hash_numbers(pa.array(["a", "ü"], pa.large_string())),
        placing.hash_numbers(pa.array(["a", "ü"])),
    )
    assert placing.numeric_numbers(pa.array([-1, 7], pa.int8())).tolist() == [-1, 7]


def test_round_robin_goes_on_where_it_was():
    selector, message = RoundRobin(), Message("t", b"x")
    expected = [selector(queues(3), message, None).queue_id for _ in range(8)]
    first, then = placing.round_robin(5), placing.round_robin(3, first=5)
    assert placing.places(np.concatenate((first, then)), 3).tolist() == expected


@pytest.mark.parametrize("name", placing.NUMBERS)
def test_a_null_is_no_key(name):
    with pytest.raises(ConfigError, match="row 1 is null"):
        placing.NUMBERS[name](pa.array([1, None]))


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([True]), pa.array([b"x"])])
def test_other_types_are_no_keys(column):
    for numbers in placing.NUMBERS.values():
        with pytest.raises(ConfigError, match="needs a column of"):
            numbers(column)


def test_numeric_mod_takes_numbers_of_64_bits_only():
    with pytest.raises(ConfigError, match="hash_mod"):
        placing.numeric_numbers(pa.array([2**63], pa.uint64()))
    with pytest.raises(ConfigError, match="use hash_mod for text"):
        placing.numeric_numbers(pa.array(["1"]))


def test_text_that_is_not_utf8_is_named_by_its_row():
    bad = pa.array([b"a", b"b"] * 20_000 + [b"\xff"]).cast(pa.binary())
    broken = pa.Array.from_buffers(pa.string(), len(bad), bad.buffers())
    with pytest.raises(ConfigError, match="row 40000 is not UTF-8"):
        placing.hash_numbers(broken)
