"""Values and foreign text as a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.foreign_text import escaped
from orderly.report import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, words.NOT_KNOWN),
        (0.0, "0s"),
        (0.42, "420ms"),
        (312, "5m12s"),
        (3600, "1h"),
        (273_600, "3d4h"),
    ],
)  # fmt: skip
def test_durations_have_two_units(seconds, text):
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, words.NOT_KNOWN), (0.0, "0.0"), (0.01, "<0.1"), (1234.56, "1,234.6")]
)
def test_a_small_rate_is_not_0(value, text):
    assert words.rate(value) == text


@given(st.text(st.characters(exclude_categories=[])))
def test_whatever_stands_there_can_be_seen_and_written(text):
    shown = escaped(text)
    assert "\n" not in shown
    shown.encode()
    assert escaped(shown) == shown


@given(st.text(), st.integers(1, 40))
def test_a_shortened_name_keeps_both_ends(text, width):
    short = words.shortened(text, width)
    assert len(short) <= max(width, 1)
    assert short == text or "…" in short
