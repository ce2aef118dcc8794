"""docs/how-to/once.md: a database that needs no server, entries that go on coming."""

import asyncio
import sqlite3

TOPICS = {"entries": 4}
REPLACE = {
    'create_async_engine("postgresql+psycopg://shop@localhost/shop"': (
        'create_async_engine("sqlite+aiosqlite:///shop.db"'
    ),
    'create_engine("postgresql+psycopg://shop@localhost/shop"': (
        'create_engine("sqlite:///shop.db"'
    ),
}
ACCOUNT = "account-1"


class redis:  # noqa: N801  the page's name for its client
    """A client nobody asks: the block only defines its handler; tests/integration asks a server."""


def before(page, block):
    if block.number == 1:
        _do("CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER)")
        _do(f"INSERT INTO account VALUES ('{ACCOUNT}', 0)")
        page.keep_sending("entries", ACCOUNT, b"5")
    elif block.number == 2:
        _do("UPDATE account SET balance = 0")


def done(page):
    return _do("SELECT balance FROM account")[0][0] >= 15


def after(page, block):
    if block.number in {1, 2}:
        disposed = page.names["engine"].dispose()
        if disposed is not None:
            asyncio.run(disposed)
        [(balance,)] = _do("SELECT balance FROM account")
        assert balance % 5 == 0
        assert len(_do("SELECT * FROM orderly_once")) == 1


def _do(statement):
    with sqlite3.connect("shop.db", timeout=30) as connection:
        found = connection.execute(statement).fetchall()
    connection.close()
    return found
