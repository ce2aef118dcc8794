"""Values for a reader, and the same for a program."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.cli.formats import Kind, Style
from orderly.cli.formats.values import plain, shown
from orderly.monitoring.texts import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0004, "1ms"),
        (0.42, "420ms"),
        (59.6, "1m"),
        (61, "1m1s"),
        (3600, "1h"),
        (3605, "1h"),
        (3660, "1h1m"),
        (90061, "1d1h"),
        (math.inf, "never"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@given(st.floats(0, 1e9))
def test_a_duration_is_at_most_its_smaller_unit_off(seconds):
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    text = duration(seconds)
    if text.endswith("ms"):
        assert abs(int(text[:-2]) / 1000 - seconds) <= 0.001
        return
    total, number, smallest = 0, "", 1
    for character in text:
        if character.isdigit():
            number += character
        else:
            smallest = units[character]
            total, number = total + int(number) * smallest, ""
    parts = sum(not character.isdigit() for character in text)
    allowed = smallest if parts == 2 else {86400: 3600, 3600: 60, 60: 1, 1: 1}[smallest]
    assert abs(total - seconds) <= allowed


@pytest.mark.parametrize(
    ("cell", "text"), [(None, ""), (7, "7"), (7.0, "7"), (0.1234, "0.123"), (100.0, "100")]
)
def test_for_programs(cell, text):
    assert plain(cell) == text


def test_what_is_not_known_is_a_dash_in_every_kind():
    assert {shown(None, kind, Style()) for kind in Kind} == {"-"}


def test_only_a_terminal_gets_thousands_separators_and_raw_never():
    assert shown(1234567, Kind.COUNT, Style(terminal=True)) == "1,234,567"
    assert shown(1234567, Kind.COUNT, Style()) == "1234567"
    assert shown(1234567, Kind.COUNT, Style(raw=True, terminal=True)) == "1234567"
    assert shown(300.5, Kind.SECONDS, Style(raw=True)) == "300.5"
    assert shown(300.5, Kind.SECONDS, Style()) == "5m"
