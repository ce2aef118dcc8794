"""Formats for programs: nothing in them runs, and what is not known stays so."""

import csv as comma
import io
import json as java_script

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from orderly.cli.formats import Answer, Column, Kind, Style
from orderly.cli.formats.data import csv, json, nagios, prometheus, yaml
from orderly.cli.formats.options import WRITERS
from orderly.errors import ConfigError

COLUMNS = (Column("first key"), Column("in/s", Kind.RATE))


def test_csv_has_names_for_programs_and_numbers_as_they_are():
    answer = Answer(COLUMNS, [("a,b", 1234.5), ("c", None), ("", -1)])
    assert csv(answer, Style(terminal=True)) == ('first_key,in_per_s\n"a,b",1234.5\nc,\n,-1')
    assert csv(answer, Style(headers=False)).startswith('"a,b"')


@given(st.text())
def test_no_text_is_a_formula_or_breaks_its_line(text):
    row = next(
        comma.reader(io.StringIO(csv(Answer((Column("x"),), [(text,)]), Style(False)))), [""]
    )
    assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert "\n" not in row[0]
    assert "\x1b" not in row[0]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", '=HYPERLINK("http://x")'])
def test_formulas_are_quoted(text):
    assert csv(Answer((Column("x"),), [(text,)]), Style(False)).lstrip('"').startswith("'")


def test_json_and_yaml_say_the_same():
    document = {"a": None, "b": [1, 2.5, "=x\x1b[31m", "ü"], "c": True}
    answer = Answer((), (), lambda: document)
    assert java_script.loads(json(answer, Style())) == document
    assert pyyaml.safe_load(yaml(answer, Style())) == document
    for text in (json(answer, Style()), yaml(answer, Style())):
        assert "\x1b" not in text


def test_json_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="JSON"):
        json(Answer((), (), lambda: float("inf")), Style())


def test_a_line_stays_one_line():
    assert nagios(Answer((), (), line=lambda: "a\nb\x1b[2J"), Style()) == r"a\nb"
    assert prometheus(Answer((), (), metrics=lambda: "x 1\ny 2\n"), Style()) == "x 1\ny 2"


@pytest.mark.parametrize("name", ["json", "yaml", "prometheus", "nagios"])
def test_a_format_the_command_does_not_have_is_told(name):
    with pytest.raises(ConfigError, match="no output"):
        WRITERS[name](Answer((), ()), Style())
