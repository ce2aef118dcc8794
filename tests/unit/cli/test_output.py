"""Tables in a pipe: plain, aligned, digits only, `-` for what is not known."""

import click
import pytest

from orderly.cli.output import Table, plain_lines, print_table
from orderly.cli.settings import Settings

TABLE = Table(
    ("queue", "backlog", "state"),
    [("broker-a/0", 1234567, "OK"), ("b/1", None, "NEW"), ("b/2", 5, "LOST 3")],
    title="left out",
)


def test_plain_columns():
    assert plain_lines(TABLE) == [
        "QUEUE       BACKLOG  STATE",
        "broker-a/0  1234567  OK",
        "b/1               -  NEW",
        "b/2               5  LOST 3",
    ]


def test_a_table_without_rows_is_its_headings():
    assert plain_lines(Table(("a", "b"), [])) == ["A  B"]


def test_escapes_in_cells_are_stripped():
    assert plain_lines(Table(("key",), [("\x1b[31mx\ny",)])) == ["KEY", r"x\ny"]


def test_on_a_terminal_the_table_is_drawn_and_markup_in_cells_stays_text(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    print_table(Table(("key", "backlog"), [("[red]x[/red]\x1b[31m", 1234567)]))
    shown = capsys.readouterr().out
    assert "[red]x[/red]" in shown
    assert "1,234,567" in shown


def test_a_table_is_drawn_without_colours_where_they_are_not_wanted(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for color, colored in (("always", True), ("never", False)):
        with click.Context(click.Command("x"), obj=Settings(color=color)):
            print_table(Table(("state",), [("LOST",)]))
        assert ("\x1b[1;31m" in capsys.readouterr().out) is colored
