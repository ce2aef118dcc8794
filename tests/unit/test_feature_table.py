"""The tables of features and faults name tests that exist, and say which of them are nightly."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/reference/features.md"
FAULTS = ROOT / "docs/proof/faults.md"
FOLDERS = {
    "b": "tests/behaviour/test_{}.py",
    "i": "tests/integration/test_{}.py",
    "f": "tests/integration/faults/test_{}.py",
    "c": "tests/integration/cluster/test_{}.py",
    "e": "tests/examples/test_{}.py",
    "s": "tests/spark/test_{}.py",
    "n": "tests/native/test_{}.py",
    "u": "tests/unit/{}",
}


def named(text):
    """The files that a text names, and whether it calls each of them nightly."""
    found = re.findall(r"`([bceiufsn])/([^`]+)`( \(nightly\))?", text)
    return [(ROOT / FOLDERS[kind].format(name), bool(called)) for kind, name, called in found]


def is_nightly(path):
    """Whether all tests of a file are marked, so that CI runs none."""
    text = path.read_text() if path.is_file() else ""
    marked = [
        "pytest.mark.nightly" in map(ast.unparse, it.decorator_list)
        for it in ast.parse(text).body
        if isinstance(it, ast.FunctionDef) and it.name.startswith("test_")
    ]
    whole = re.search(r"^pytestmark = .*\bnightly\b", text, re.MULTILINE)
    return bool(whole) or (bool(marked) and all(marked))


def test_every_test_it_names_is_there():
    paths = [path for path, _ in named(TABLE.read_text())]
    assert len(paths) > 50
    assert [str(path) for path in paths if not path.exists()] == []


def test_what_it_calls_nightly_is_and_nothing_else():
    wrong = [str(path) for path, called in named(TABLE.read_text()) if called != is_nightly(path)]
    assert wrong == []


def test_every_row_has_a_test_that_ci_runs():
    rows = [row for row in TABLE.read_text().splitlines() if "nightly" in row and row[0] == "|"]
    assert rows
    assert [row for row in rows if all(called for _, called in named(row))] == []


def test_faults_that_ci_does_not_break_are_called_nightly():
    named = re.findall(r"^\|[^|]*\| `(test_\w+)`( \(nightly\))?", FAULTS.read_text(), re.MULTILINE)
    folder = ROOT / "tests/integration/faults"
    assert {f"{name}.py" for name, _ in named} == {path.name for path in folder.glob("test_*.py")}
    for name, called in named:
        path = folder / f"{name}.py"
        assert called or not is_nightly(path), name
        assert not called or "mark.nightly" in path.read_text(), name


@pytest.mark.parametrize(
    ("letter", "count"), [("S", 24), ("K", 13), ("M", 5), ("P", 3), ("W", 6), ("R", 2)]
)
def test_every_row_of_what_is_promised_is_in_it(letter, count):
    rows = re.findall(rf"^\| ({letter}\d+) \|", TABLE.read_text(), re.MULTILINE)
    assert rows == [f"{letter}{number}" for number in range(1, count + 1)]
