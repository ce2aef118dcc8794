"""The README's table names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "b": "tests/behaviour/test_{}.py",
    "i": "tests/integration/test_{}.py",
    "f": "tests/integration/faults/test_{}.py",
    "u": "tests/unit/{}",
}


def test_every_test_it_names_is_there():
    named = re.findall(r"`([biuf])/([^`]+)`", (ROOT / "README.md").read_text())
    paths = [ROOT / FOLDERS[kind].format(name) for kind, name in named]
    assert len(paths) > 50
    assert [str(path) for path in paths if not path.exists()] == []


def test_every_row_of_the_sending_and_the_consuming_side_is_in_it():
    rows = re.findall(r"^\| (S\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert rows == [f"S{number}" for number in range(1, 25)]
