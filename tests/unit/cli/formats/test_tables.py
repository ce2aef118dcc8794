"""Tables: aligned, safe for a terminal, coloured by verdict where wanted."""

import click

from orderly.cli.formats import Answer, Column, Kind, Style
from orderly.cli.formats.tables import table, wide

ANSWER = Answer(
    (Column("key"), Column("state", Kind.STATE), Column("n", Kind.COUNT), Column("why", wide=True)),
    [("a\x1b[31m\nb", "OFFLINE", 7, "x"), ("long name", "OK", None, "y")],
)


def test_columns_are_aligned_and_escapes_stripped():
    assert table(ANSWER, Style()).splitlines() == [
        "KEY        STATE    N",
        r"a\nb       OFFLINE  7",
        "long name  OK       -",
    ]


def test_wide_has_all_columns_and_headings_can_be_left_out():
    assert wide(ANSWER, Style()).splitlines()[0].endswith("WHY")
    assert wide(ANSWER, Style(headers=False)).splitlines() == [
        r"a\nb       OFFLINE  7  x",
        "long name  OK       -  y",
    ]


def test_colours_change_nothing_but_colours():
    colored = table(ANSWER, Style(color=True))
    assert click.unstyle(colored) == table(ANSWER, Style())
    assert click.style("OFFLINE", fg="red", bold=True) in colored
    assert click.style("OK     ", fg="green") in colored


def test_without_rows_there_are_headings_alone_or_nothing():
    empty = Answer((Column("key"),), [])
    assert table(empty, Style()) == "KEY"
    assert table(empty, Style(headers=False)) == ""
