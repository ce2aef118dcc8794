"""Each command answers as its golden text says; see `golden/transcript.py`."""

import pytest

from tests.unit.cli.golden.tables import TABLES

SECTIONS = [(table, *section) for table in TABLES for section in table.sections().items()]


@pytest.mark.parametrize(("table", "case", "golden"), SECTIONS, ids=[it[1] for it in SECTIONS])
def test_it_answers_as_written(table, case, golden):
    assert table.answer(case).split("\n") == golden.split("\n")


def test_nothing_written_acts_on_a_terminal():
    assert all(line.isprintable() for *_, golden in SECTIONS for line in golden.split("\n"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.path.stem)
def test_each_situation_is_used_and_no_case_is_there_twice(table):
    text = table.path.read_text(encoding="utf-8")
    assert text.count("\n$ ") + 1 == len(table.sections())
    used = {case.partition("  # ")[2] for case in table.sections()} - {""}
    assert used == set(table.situations)
