from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors import hash_mod, java_string_hash, numeric_mod

MESSAGE = Message("T", b"x")


def queues(count: int) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("T", "broker-a", number) for number in range(count))


# key: hash, place among 4, place among 16; computed by Java itself
VECTORS = [
    ("", 0, 0, 0),
    ("a", 97, 1, 1),
    ("order-1001", 708180863, 3, 15),
    ("1001", 1507424, 0, 0),
    ("订单-42", -711980392, 0, 8),
    ("\U0001f600", 1772899, 3, 3),
    ("polygenelubricants", -2147483648, 0, 0),
]


@pytest.mark.parametrize(("key", "value", "of_4", "of_16"), VECTORS)
def test_a_key_goes_where_java_puts_it(key, value, of_4, of_16):
    assert java_string_hash(key) == value
    assert hash_mod(queues(4), MESSAGE, key).queue_id == of_4
    assert hash_mod(queues(16), MESSAGE, key).queue_id == of_16


@given(st.integers(), st.integers(1, 64))
def test_an_int_is_hashed_as_its_decimal_text(key, count):
    assert hash_mod(queues(count), MESSAGE, key) == hash_mod(queues(count), MESSAGE, str(key))


@given(st.text(st.characters()), st.integers(1, 64))
def test_the_place_is_java_remainder_made_positive(key, count):
    value = java_string_hash(key)
    remainder = value - count * int(value / count)  # truncated, as Java's %
    assert hash_mod(queues(count), MESSAGE, key).queue_id == abs(remainder)


@given(st.text(st.characters(), min_size=1))
def test_the_hash_is_the_sum_of_utf_16_units_times_powers_of_31(key):
    data = key.encode("utf-16-le", "surrogatepass")
    units = [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]
    total = sum(unit * 31**power for power, unit in enumerate(reversed(units)))
    assert java_string_hash(key) % 2**32 == total % 2**32
    assert -(2**31) <= java_string_hash(key) < 2**31


@pytest.mark.parametrize("arg", [None, True, False, b"bytes", 1.5, ("a",), object()])
def test_hash_mod_refuses_what_is_no_key(arg):
    with pytest.raises(ConfigError, match="hash_mod needs a str or an int"):
        hash_mod(queues(4), MESSAGE, arg)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 64))
def test_numeric_mod_counts_by_value_and_never_below_zero(number, count):
    place = numeric_mod(queues(count), MESSAGE, number).queue_id
    assert 0 <= place < count
    assert (number - place) % count == 0


def test_minus_one_goes_to_the_last_queue():
    assert numeric_mod(queues(4), MESSAGE, -1).queue_id == 3


@given(st.integers(-(2**62), 2**62), st.integers(1, 64))
def test_neighbouring_numbers_go_to_neighbouring_queues(number, count):
    here = numeric_mod(queues(count), MESSAGE, number).queue_id
    assert numeric_mod(queues(count), MESSAGE, number + 1).queue_id == (here + 1) % count


@pytest.mark.parametrize("arg", [None, True, "7", 7.0, b"7"])
def test_numeric_mod_refuses_what_is_no_int(arg):
    with pytest.raises(ConfigError, match="numeric_mod needs an int"):
        numeric_mod(queues(4), MESSAGE, arg)


@pytest.mark.parametrize("arg", [2**63, -(2**63) - 1])
def test_numeric_mod_refuses_numbers_beyond_64_bits(arg):
    with pytest.raises(ConfigError, match="64 bits"):
        numeric_mod(queues(4), MESSAGE, arg)
