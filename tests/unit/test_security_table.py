"""docs/how-to/security.md names a test for each case, and there is one of that name."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "how-to" / "security.md").read_text()
NAMED = re.findall(r"\| (tests/[\w/]+\.py)::(\w+) \|$", TABLE, re.MULTILINE)
ROWS = TABLE.partition("## Cases")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_test_of_a_case_is_there(path, name):
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_has_one():
    assert len(NAMED) == len(ROWS.splitlines()) > 30
