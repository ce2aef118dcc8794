"""docs/reference/security.md names a test for each case, and there is one of that name."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from orderly.small_http import ServerLimits

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "reference" / "security.md").read_text()
NAMED = re.findall(r"\| (tests/[\w/]+\.py)::(\w+) \|$", TABLE, re.MULTILINE)
ROWS = TABLE.partition("## Cases")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_test_of_a_case_is_there(path, name):
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_has_one():
    assert len(NAMED) == len(ROWS.splitlines()) > 30


def test_the_limits_of_exporter_and_probe_are_the_ones_that_are_told():
    limits = ServerLimits()
    asking = f"{limits.asking:g} s, {limits.head >> 10} KiB"
    assert f"| a request to exporter or probe | {asking} |" in TABLE
    assert f"| its answer | {limits.answering:g} s |" in TABLE
    places = f"{limits.at_once}, {limits.per_peer} of one address"
    assert f"| connections to one of them | {places} |" in TABLE


def test_whom_to_tell_of_a_weakness_is_in_the_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    security = (ROOT / "SECURITY.md").read_text()
    told = security.partition("## Reporting")[2].partition("\n## ")[0]
    assert all(author["name"] in told for author in project["authors"])
    addresses = {author["email"] for author in project["authors"] if "email" in author}
    assert set(re.findall(r"https?://[^\s)>]+|[\w.+-]+@[\w.-]+\w", told)) == addresses
    assert ("no public address yet" in told) == (not addresses)
