"""The table of features names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/reference/features.md"
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


def test_every_test_it_names_is_there():
    named = re.findall(r"`([bceiufsn])/([^`]+)`", TABLE.read_text())
    paths = [ROOT / FOLDERS[kind].format(name) for kind, name in named]
    assert len(paths) > 50
    assert [str(path) for path in paths if not path.exists()] == []


@pytest.mark.parametrize(
    ("letter", "count"), [("S", 24), ("K", 13), ("M", 5), ("P", 3), ("W", 6), ("R", 2)]
)
def test_every_row_of_what_is_promised_is_in_it(letter, count):
    rows = re.findall(rf"^\| ({letter}\d+) \|", TABLE.read_text(), re.MULTILINE)
    assert rows == [f"{letter}{number}" for number in range(1, count + 1)]
