"""The table in the documentation is the one that is used."""

import re
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from orderly.once import Once

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "once.md"


def in_one_line(statement):
    return re.sub(r"\s+", " ", statement).replace("( ", "(").replace(" )", ")").strip()


def test_the_migration_in_the_document_makes_this_table():
    (written,) = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    made = str(CreateTable(Once().table).compile(dialect=postgresql.dialect()))
    assert in_one_line(written) == in_one_line(made)


def test_it_may_stand_among_the_users_tables():
    metadata = MetaData()
    once = Once(table_name="applied", metadata=metadata)
    assert metadata.tables == {"applied": once.table}
