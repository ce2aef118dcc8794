"""Which keys can be parked, and their tags."""

from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.java_json import dumps, loads
from orderly.protocol.parked_key import MOST_OF_KEY, as_key, key_of, key_tag

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
KEYS = st.one_of(TEXT, st.integers(-(2**63) + 1, 2**63 - 1))


class Name(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


@given(KEYS)
def test_a_key_is_read_as_it_is_written(key):
    read = as_key(loads(dumps(key_of(key))))
    assert (read, type(read)) == (key, type(key))


@pytest.mark.parametrize(
    ("lane_key", "key"), [(True, 1), (Name.ONE, "one"), (Number.ONE, 1), ("", ""), (0, 0)]
)
def test_a_key_becomes_plain(lane_key, key):
    assert (key_of(lane_key), type(key_of(lane_key))) == (key, type(key))


@pytest.mark.parametrize(
    "key", [None, 1.0, ("a", 1), b"a", 2**63, -(2**64), "\ud800", "x" * MOST_OF_KEY, "\0" * 200]
)
def test_other_keys_cannot_be_parked(key):
    assert key_of(key) is None


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}, 2**63, "x" * MOST_OF_KEY])
def test_what_cannot_be_parked_is_not_read(value):
    with pytest.raises(ProtocolError):
        as_key(value)


def test_tags_are_stable_and_tell_texts_from_numbers():
    assert key_tag("order-1") == "5e9d72ecab84368d"
    assert len({key_tag(key) for key in ("1", 1, "s1", "i1")}) == 4
