"""Output: safe for a terminal, coloured by verdict, and each format of a program says the same."""

import csv
import io
import json
import math
import os
import subprocess
import sys
import unicodedata

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orderly.cli.output import (
    FORMATS,
    OF_BACKLOGS,
    CommandOutput,
    Format,
    Style,
    plain,
    show,
    show_each,
    shown,
    table,
    written,
)
from orderly.cli.settings import CommonOptions
from orderly.cli.terminal import colors_wanted
from orderly.errors import ConfigError
from orderly.monitoring.texts import Column, ColumnKind, duration
from tests.support.command_tree import leaves, options


def of(name, answer, *, headers=True):
    """What the format writes."""
    return written(answer, Format(name, headers), color=False)


LISTED = CommandOutput(
    (
        Column("key"),
        Column("state", ColumnKind.STATE),
        Column("n", ColumnKind.COUNT),
        Column("why", wide=True),
    ),
    [("a\x1b[31m\nb", "OFFLINE", 7, "x"), ("long name", "OK", None, "y")],
)


def test_columns_are_aligned_and_escapes_stripped():
    assert table(LISTED, Style()).splitlines() == [
        "KEY        STATE    N",
        r"a\nb       OFFLINE  7",
        "long name  OK       -",
    ]


def test_wide_has_all_columns_and_headings_can_be_left_out():
    assert table(LISTED, Style(), everything=True).splitlines()[0].endswith("WHY")
    assert table(LISTED, Style(headers=False), everything=True).splitlines() == [
        r"a\nb       OFFLINE  7  x",
        "long name  OK       -  y",
    ]


def test_colours_change_nothing_but_colours():
    colored = table(LISTED, Style(color=True))
    assert click.unstyle(colored) == table(LISTED, Style())
    assert click.style("OFFLINE", fg="red", bold=True) in colored
    assert click.style("OK     ", fg="green") in colored


def test_without_rows_there_are_headings_alone_or_nothing():
    empty = CommandOutput((Column("key"),), [])
    assert table(empty, Style()) == "KEY"
    assert table(empty, Style(headers=False)) == ""


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
    assert {shown(None, kind, Style()) for kind in ColumnKind} == {"-"}


def test_only_a_terminal_gets_thousands_separators_and_raw_never():
    assert shown(1234567, ColumnKind.COUNT, Style(terminal=True)) == "1,234,567"
    assert shown(1234567, ColumnKind.COUNT, Style()) == "1234567"
    assert shown(1234567, ColumnKind.COUNT, Style(raw=True, terminal=True)) == "1234567"
    assert shown(300.5, ColumnKind.SECONDS, Style(raw=True)) == "300.5"
    assert shown(300.5, ColumnKind.SECONDS, Style()) == "5m"


PROGRAMS = (Column("first key"), Column("in/s", ColumnKind.RATE))


def test_csv_has_names_for_programs_and_numbers_as_they_are():
    answer = CommandOutput(PROGRAMS, [("a,b", 1234.5), ("c", None), ("", -1)])
    assert of("csv", answer) == ('first_key,in_per_s\n"a,b",1234.5\nc,\n,-1')
    assert of("csv", answer, headers=False).startswith('"a,b"')


@given(st.text())
def test_no_text_is_a_formula_or_breaks_its_line(text):
    row = next(
        csv.reader(io.StringIO(of("csv", CommandOutput((Column("x"),), [(text,)]), headers=False))),
        [""],
    )
    for cell in row[0].split(";"):  # as spreadsheets of many countries do
        assert unicodedata.normalize("NFKC", cell.lstrip()[:1])[:1] not in set("=+-@")
    assert "\n" not in row[0]
    assert "\x1b" not in row[0]


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+1", "-1", "@x", '=HYPERLINK("http://x")', " =1", "\u00a0=1", "\u3000+1",
        "\uff1d1", "\uff0b1", "\uff0d1", "\uff20x", "\ufe661",
    ],
)  # fmt: skip
def test_formulas_are_quoted(text):
    answer = CommandOutput((Column("x"),), [(text,), (f"a;{text}",)])
    first, second = csv.reader(io.StringIO(of("csv", answer, headers=False)))
    assert first[0].startswith("'")
    assert second[0].startswith("a;'")


def test_json_and_yaml_say_the_same():
    document = {"a": None, "b": [1, 2.5, "=x\x1b[31m", "ü"], "c": True}
    answer = CommandOutput((), (), lambda: document)
    assert json.loads(of("json", answer)) == document
    assert yaml.safe_load(of("yaml", answer)) == document
    for text in (of("json", answer), of("yaml", answer)):
        assert "\x1b" not in text


def test_json_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="JSON"):
        of("json", CommandOutput((), (), lambda: float("inf")))


def test_a_line_stays_one_line():
    assert of("nagios", CommandOutput((), (), line=lambda: "a\nb\x1b[2J")) == r"a\nb"
    assert of("prometheus", CommandOutput((), (), metrics=lambda: "x 1\ny 2\n")) == "x 1\ny 2"


@pytest.mark.parametrize("name", ["json", "yaml", *OF_BACKLOGS])
def test_a_format_the_command_does_not_have_is_told(name):
    with pytest.raises(ConfigError, match="no output"):
        of(name, CommandOutput((), ()))


SHOWN = """
import sys
from orderly.cli.output import CommandOutput, Format, show
from orderly.monitoring.texts import Column
from orderly.cli.settings import CommonOptions
found = CommandOutput([Column("group")], [["shipping"]])
show(found, Format("table", True, False), CommonOptions())
sys.exit(2)
"""


def test_a_reader_that_leaves_does_not_change_the_exit_code():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (2, b"")


@pytest.mark.parametrize(
    ("choice", "env", "terminal", "colored"),
    [
        ("auto", {}, True, True),
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colours(choice, env, terminal, colored):
    assert colors_wanted(choice, env, terminal=terminal) is colored


EACH = [({"key": "a", "offset": 9}, {"k": "a"}), ({"key": "b\n", "offset": 10}, {"k": "b\n"})]


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("table", ["KEY  OFFSET", "a         9", r"b\n      10"]),
        ("csv", ["key,offset", "a,9", r"b\n,10"]),
        ("json", ['{"k": "a"}', r'{"k": "b\n"}']),
        ("yaml", ["---", "k: a", "---", "k: 'b", "", "  '"]),  # two documents
    ],
)
def test_rows_come_one_by_one_as_wide_as_the_first(capsys, output, lines):
    columns = (Column("key"), Column("offset", ColumnKind.NUMBER))
    show_each(columns, EACH, Format(output), CommonOptions(color="never"))
    assert capsys.readouterr().out.splitlines() == lines


def test_a_state_has_one_colour_wherever_it_is_shown():
    cells = [("UNKNOWN", "magenta"), ("NEW", "magenta"), ("AHEAD", "yellow"), ("WARNING", "yellow")]
    for word, color in cells:
        told = table(
            CommandOutput((Column("s", ColumnKind.STATE),), [(word,)]),
            Style(headers=False, color=True),
        )
        assert told == click.style(word, fg=color)


def test_colours_are_printed_only_where_they_are_wanted(capsys):
    for color, colored in (("always", True), ("never", False)):
        show(
            CommandOutput((Column("s", ColumnKind.STATE),), [("LOST",)]),
            Format("table"),
            CommonOptions(color=color),
        )
        assert ("\x1b[31m" in capsys.readouterr().out) is colored


def test_a_time_is_told_to_the_minute_and_raw_as_it_is():
    time = "2026-11-23T10:44:23.500Z"
    assert shown(time, ColumnKind.TIME, Style()) == "2026-11-23T10:44Z"
    assert shown(time, ColumnKind.TIME, Style(raw=True)) == time


def test_every_command_that_has_formats_has_all_of_them():
    for words, command in leaves().items():
        for option in options(command):
            if "--output" in option.opts and isinstance(option.type, click.Choice):
                assert option.type.choices[: len(FORMATS)] == FORMATS, words
