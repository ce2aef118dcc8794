"""Keeps a copy of a table: applies its changes in order for each row, each once.

    python replica.py replica.db customers

The number of the last applied change is kept with each row, in the same transaction, also for rows
that are deleted. A change whose number is not above it was already applied. It came again because
this process or the sender was killed, or because another member took the queue over.

A change with a column that the copy does not have parks its row, until the column is there and
somebody releases the row (`orderly parked release`). So does a change that the copy's constraints
refuse. All other rows go on.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from typing import Any, TypedDict

from source import columns_and_key, quoted

from orderly import Ack, Attempt, ConsumerConfig, Listener, OrderlyConsumer, Outcome, Park

_APPLIED = """
CREATE TABLE IF NOT EXISTS applied (
    source TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (source, key))
"""
_NOTE = """
INSERT INTO applied VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET number = excluded.number WHERE excluded.number > applied.number
"""


class Change(TypedDict):
    """A message's body."""

    number: int
    row: dict[str, Any] | None  # None: deleted


class Replica:
    """The copy of one table. Thread-safe: each call has a connection of its own.

    Args:
        path: of the SQLite file.
        table: has all columns of the source; may have more, with defaults, but no constraint over
            several rows, for changes of different rows are applied side by side.
    """

    def __init__(self, path: str, table: str) -> None:
        self._path = path
        self._table = table
        with closing(self._open()) as db:
            db.execute(_APPLIED)

    def listener(self) -> Listener:
        """Make the consumer's handler."""
        return Listener(
            self.apply,
            decode="json",
            on_error={
                sqlite3.IntegrityError: "park_key",  # the copy will refuse it tomorrow, too
                sqlite3.OperationalError: "wait",  # locked, disk full: not the row's fault
            },
            on_poison="park_key",
        )

    def apply(self, change: Change, attempt: Attempt) -> Outcome:
        """Apply one change, or return why not."""
        with closing(self._open()) as db:
            columns, key = columns_and_key(db, self._table)
            unknown = sorted(set(change["row"] or ()) - set(columns))
            if unknown:
                return Park(f"the copy of {self._table} has no column {', '.join(unknown)}")
            with db:
                db.execute("BEGIN IMMEDIATE")
                noted = db.execute(_NOTE, (self._table, attempt.key, change["number"]))
                if noted.rowcount:
                    self._write(db, key, attempt.key, change["row"])
        return Ack()  # behind the commit, never in front of it

    def _write(
        self, db: sqlite3.Connection, key: str, value: object, row: dict[str, Any] | None
    ) -> None:
        table, key = quoted(self._table), quoted(key)
        if row is None:
            db.execute(f"DELETE FROM {table} WHERE {key} = ?", (value,))  # noqa: S608
            return
        names = [quoted(name) for name in row]
        places = ", ".join("?" * len(names))
        news = ", ".join(f"{name} = excluded.{name}" for name in names)
        insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608
        db.execute(f"{insert} ON CONFLICT ({key}) DO UPDATE SET {news}", tuple(row.values()))

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30, isolation_level=None)


def main(path: str, table: str) -> None:
    """Copy until SIGTERM or Ctrl-C."""
    config = ConsumerConfig.from_env(order="key", consume_from="first")
    handler = Replica(path, table).listener()
    consumer = OrderlyConsumer(f"replica-of-{table}", handler, config=config)
    with consumer.subscribe(table):
        print(f"copying {table}", flush=True)
        consumer.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
