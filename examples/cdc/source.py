"""Makes SQLite record what changes in a table: triggers fill the table `changes`.

    python source.py source.db customers

SQLite lets one transaction write at a time, so the numbers in `changes` have the order of the
commits. (In PostgreSQL only the `changes` of *one* key have that order, because its row is locked.)
Run this again after each change of the table's columns. REPLACE can delete a row with the same
unique value without any trigger, so use it only with `PRAGMA recursive_triggers = ON`.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

_CHANGES = """
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice, not even if all are deleted
    source TEXT NOT NULL, key TEXT NOT NULL, content TEXT)
"""
_NOTE = "INSERT INTO changes (source, key, content)"
_TRIGGER = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"


def install(db: sqlite3.Connection, table: str) -> None:
    """Create the triggers; replace existing ones.

    Rows count as changed if they have a value in a column that the triggers did not know. At
    first these are all rows, later those that changed between an ALTER TABLE and this call.

    Raises:
        ValueError: no such table, a primary key that is not one column, or a column of bytes.
    """
    columns, key = columns_and_key(db, table)
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute(_CHANGES)
        known = db.execute(_TRIGGER, (f"{table}_inserted",)).fetchone() or ("",)
        new = [name for name in columns if _field(name, "NEW.") not in known[0]]
        if new:
            filled = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in new)
            rows = f"SELECT '{table}', {quoted(key)}, {_content(columns, '')} FROM {quoted(table)}"  # noqa: S608
            db.execute(f"{_NOTE} {rows} WHERE {filled}")
        for name, statement in _triggers(table, columns, key).items():
            db.execute(f"DROP TRIGGER IF EXISTS {quoted(name)}")
            db.execute(f"CREATE TRIGGER {quoted(name)} {statement}")


def columns_and_key(db: sqlite3.Connection, table: str) -> tuple[list[str], str]:
    """Return a table's columns, and which of them is the primary key.

    Raises:
        ValueError: as `install`.
    """
    if not table.isidentifier():
        raise ValueError(f"{table!r} is no name of a table")
    found = db.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()
    keys = [name for name, _, place in found if place]
    if len(keys) != 1:
        raise ValueError(f"{table} must be a table whose primary key is one column, not {keys}")
    if any("BLOB" in kind.upper() for _, kind, _ in found):
        raise ValueError(f"{table} has a column of bytes, which JSON does not know")
    return [name for name, _, _ in found], keys[0]


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _triggers(table: str, columns: list[str], key: str) -> dict[str, str]:
    old, new = f"OLD.{quoted(key)}", f"NEW.{quoted(key)}"
    write = f"{_NOTE} VALUES ('{table}', {new}, {_content(columns, 'NEW.')});"
    gone = f"{_NOTE} SELECT '{table}', {old}, NULL"
    on = f"ON {quoted(table)} BEGIN"
    return {
        f"{table}_inserted": f"AFTER INSERT {on} {write} END",
        # A row that gets another key is gone under the old one.
        f"{table}_updated": f"AFTER UPDATE {on} {gone} WHERE {old} IS NOT {new}; {write} END",
        f"{table}_deleted": f"AFTER DELETE {on} {gone}; END",
    }


def _content(columns: list[str], row: str) -> str:
    """The row as JSON."""
    return f"json_object({', '.join(_field(name, row) for name in columns)})"


def _field(name: str, row: str) -> str:
    """A column's name and value. JSON functions write 15 digits of a float; 18 keep it exact."""
    value = f"{row}{quoted(name)}"
    exact = (
        f"CASE typeof({value}) WHEN 'real' THEN json(printf('%!.18g', {value})) ELSE {value} END"
    )
    return f"'{name.replace(chr(39), chr(39) * 2)}', {exact}"


if __name__ == "__main__":
    with closing(sqlite3.connect(sys.argv[1], isolation_level=None)) as source:
        install(source, sys.argv[2])
