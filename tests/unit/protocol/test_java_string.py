import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.protocol.java_string import java_string_hash


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("order-1001", 708180863),
        ("1001", 1507424),
        ("\u8ba2\u5355-42", -711980392),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
        ("GydZG_", -(2**31)),
        ("DESIGNING WORKHOUSES", -(2**31)),
    ],
)
def test_it_equals_the_hash_java_computes(key, expected):
    assert java_string_hash(key) == expected


def test_a_character_beyond_16_bits_counts_as_its_two_surrogates():
    assert java_string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_a_lone_surrogate_has_a_hash_too():
    assert java_string_hash("\ud83d") == 0xD83D


@given(st.text(max_size=40), st.characters(max_codepoint=0xFFFF))
def test_each_further_unit_multiplies_by_31_and_wraps_at_32_bits(text, unit):
    expected = (31 * java_string_hash(text) + ord(unit)) % 2**32
    assert java_string_hash(text + unit) % 2**32 == expected
    assert -(2**31) <= java_string_hash(text + unit) < 2**31
