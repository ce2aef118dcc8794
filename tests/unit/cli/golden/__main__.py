"""Take what every command answers as it is now: `python -m tests.unit.cli.golden --write`."""

import sys

from tests.unit.cli.golden.tables import TABLES

if sys.argv[1:] != ["--write"]:
    sys.exit("give --write; the tests say what changed")
for table in TABLES:
    answers = map(table.answer, table.sections())
    table.path.write_text("".join(answers), encoding="utf-8")
