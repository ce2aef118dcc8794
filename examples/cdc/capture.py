"""Sends the changes of a table, those of a row in their order.

    python capture.py source.db customers

What was sent is deleted afterwards. Whatever goes wrong ends the process: who starts it again has
it begin where it was, and some changes are sent twice. They have numbers, see `replica.py`.
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
    """Send the oldest changes, to the topic of the table's name; returns how many.

    Raises:
        OrderlyError: one was not sent; none is deleted.
    """
    changes = db.execute(_OLDEST, (table, BATCH)).fetchall()
    if not changes:
        return 0
    # An order of calls is an order of messages: what one call raises keeps back all that follow,
    # and when a send fails later, the producer holds back the later ones of its key.
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
    """Capture until the process is ended, at any moment and by any means."""
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
