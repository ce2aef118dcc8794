"""Sends the changes of a table, in order for each row.

    python capture.py source.db customers

Changes are deleted after they are sent. Any error ends the process. When it is started again, it
continues where it was, and sends some changes twice. Their numbers show that: see `replica.py`.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing

from orderly import Client, ClientConfig, Message, OrderlyProducer

BATCH = 500  # changes
POLL = 0.2  # seconds between two looks at a table without changes
_OLDEST = "SELECT number, key, content FROM changes WHERE source = ? ORDER BY number LIMIT ?"


def capture(db: sqlite3.Connection, table: str, producer: OrderlyProducer) -> int:
    """Send the oldest changes to the topic named like the table; returns how many were sent.

    Raises:
        OrderlyError: a change was not sent; none is deleted.
    """
    changes = db.execute(_OLDEST, (table, BATCH)).fetchall()
    if not changes:
        return 0
    # Messages have the order of the calls. If a call raises, no later one is made. If a send
    # fails afterwards, the producer holds back later messages of its key.
    sending = [producer.submit(_message(table, *change)) for change in changes]
    for future in sending:
        future.result()
    with db:
        db.execute("BEGIN IMMEDIATE")
        numbers = [(number,) for number, _, _ in changes]
        db.executemany("DELETE FROM changes WHERE number = ?", numbers)
    return len(changes)


def _message(table: str, number: int, key: str, content: str | None) -> Message:
    body = f'{{"number": {number}, "row": {content or "null"}}}'
    return Message(table, body.encode(), sharding_key=key)


def main(path: str, table: str) -> None:
    """Capture until the process ends; that can be at any moment."""
    with (
        closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as db,
        Client(ClientConfig.from_env()) as client,
        OrderlyProducer("capture", client=client) as producer,
    ):
        print(f"sending what changes in {table}", flush=True)
        while True:
            if capture(db, table, producer) == 0:
                time.sleep(POLL)


if __name__ == "__main__":
    main(*sys.argv[1:])
