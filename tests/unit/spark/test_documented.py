"""docs/reference/spark.md has the tables of the code; docs/how-to/spark.md names every job."""

import re
from pathlib import Path

import pytest

from orderly.cli.root import SPARK
from orderly.spark.columns import COLUMNS
from orderly.spark.options import SINK_OPTIONS as OF_SINK
from orderly.spark.options import SOURCE_OPTIONS as OF_SOURCE

DOCS = Path(__file__).parents[3] / "docs"
TABLES = (DOCS / "reference" / "spark.md").read_text("utf-8")
STEPS = (DOCS / "how-to" / "spark.md").read_text("utf-8")


def cell(text):
    """A text as the cell of a table: a pipe would end it, and an escaped one shows its escape."""
    return re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{code[1]}</code>", text).replace(
        "|", "&#124;"
    )


def option_lines(options):
    for each in options:
        only = f" ({each.only} only)" if each.only else ""
        yield f"| `{each.name}`{only} | {cell(each.default)} | {cell(each.about)} |"


def column_lines():
    for each in COLUMNS.values():
        null = ", may be null" if each.nullable else ""
        asked = "" if each.default else "; only if asked for"
        yield f"| `{each.name}` | `{each.spark}`{null} | {each.about}{asked} |"


@pytest.mark.parametrize(
    ("heading", "lines"),
    [
        ("| Option | Default | |", list(option_lines(OF_SOURCE))),
        ("| Option of the sink | Default | |", list(option_lines(OF_SINK))),
        ("| Column | Type | |", list(column_lines())),
    ],
)
def test_a_table_of_the_docs_is_the_table_of_the_code(heading, lines):
    rest = TABLES.partition(f"{heading}\n|---|---|---|\n")[2].splitlines()
    written = rest[: next(n for n, line in enumerate([*rest, ""]) if not line.startswith("|"))]
    assert written == lines, "the table should be:\n" + "\n".join(lines)


@pytest.mark.parametrize("name", SPARK)
def test_every_job_is_told_of(name):
    assert f"orderly spark {name}" in STEPS
