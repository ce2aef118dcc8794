"""A row that falls behind an earlier one of its key is found, wherever the batches were cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.sink.key_order import KeyOrder

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
