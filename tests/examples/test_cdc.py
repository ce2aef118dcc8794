"""examples/cdc: the copy is what the source is, whoever was killed and whatever came twice."""

import contextlib
import json
import random
import sqlite3
import sys
from concurrent.futures import Future
from contextlib import closing as closed
from importlib import import_module

import pytest

from orderly import Ack, Message, Park
from orderly.errors import RouteError
from orderly.monitoring.parked import ParkedMessages
from tests.support.programs import EXAMPLES
from tests.support.waiting import eventually, patient_client

CDC = EXAMPLES / "cdc"
ROWS = 24
COLUMNS = "(id INTEGER PRIMARY KEY, name TEXT NOT NULL, visits INTEGER NOT NULL DEFAULT 0)"
STRICTER = COLUMNS.replace("TEXT NOT NULL", "TEXT NOT NULL CHECK (name <> 'refused')")


@pytest.fixture
def cdc(monkeypatch):
    """The example's modules: source, replica, capture."""
    monkeypatch.syspath_prepend(CDC)
    names = ("source", "replica", "capture")
    yield tuple(map(import_module, names))
    for name in names:
        del sys.modules[name]


class Files:
    """A source and its copy."""

    def __init__(self, folder, table, source):
        self.table = table
        self.paths = folder / "source.db", folder / "replica.db"
        self.source, self.copy = (
            sqlite3.connect(path, timeout=30, isolation_level=None) for path in self.paths
        )
        self.source.execute(f"CREATE TABLE {table} {COLUMNS}")
        self.copy.execute(f"CREATE TABLE {table} {STRICTER}")
        source.install(self.source, table)

    def rows(self, db):
        return db.execute(f"SELECT * FROM {self.table} ORDER BY id").fetchall()

    def same(self):
        return self.rows(self.source) == self.rows(self.copy)

    def applied(self):
        """The number of the last change that the copy has."""
        try:
            return self.copy.execute("SELECT max(number) FROM applied").fetchone()[0] or 0
        except sqlite3.OperationalError:  # not made yet
            return 0

    def written(self):
        """The number of the last change of the source."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'"
        return self.source.execute(query).fetchone()[0]

    def change(self, chance, count):
        """Some changes: rows come, change, change their key and go."""
        for _ in range(count):
            row, other = chance.randrange(ROWS), chance.randrange(ROWS)
            self.source.execute(
                chance.choice(
                    [
                        "INSERT OR IGNORE INTO {0} (id, name) VALUES ({1}, 'new')",
                        "UPDATE {0} SET visits = visits + 1, name = 'n' || visits WHERE id = {1}",
                        "UPDATE {0} SET visits = visits + 1 WHERE id = {1}",
                        "UPDATE OR IGNORE {0} SET id = {2} WHERE id = {1}",
                        "DELETE FROM {0} WHERE id = {1}",
                    ]
                ).format(self.table, row, other)
            )

    def close(self):
        self.source.close()
        self.copy.close()


@pytest.fixture
def files(tmp_path, cdc, new_topic, closing):
    return closing(closed(Files(tmp_path, new_topic("customers"), cdc[0])))


@pytest.fixture
def programs(start, settings, files):
    """Start one of the programs."""
    paths = dict(zip(("capture", "replica"), files.paths, strict=True))
    return lambda name: start(f"{name}.py", paths[name], files.table, cwd=CDC, **settings)


def test_the_copy_is_the_source_whoever_was_killed(files, programs):
    chance = random.Random(10)
    files.change(chance, 100)
    capture, member, _ = programs("capture"), programs("replica"), programs("replica")
    for both in (False, True):
        seen = files.applied()
        files.change(chance, 300)
        eventually(lambda seen=seen: files.applied() > seen, within=60)
        capture.kill()
        capture = programs("capture")
        if both:
            member.kill()
            programs("replica")
    files.change(chance, 100)
    eventually(files.same, within=60, every=0.05)
    assert files.rows(files.source), "there is something to compare"


def test_a_schema_change_and_a_refused_row_park_their_rows_only(files, programs, leased, cdc):
    programs("capture")
    programs("replica")
    insert = f"INSERT INTO {files.table} (id, name) VALUES (?, ?)"
    for row in range(10):
        files.source.execute(insert, (row, "refused" if row == 3 else "good"))
    files.source.execute(f"ALTER TABLE {files.table} ADD COLUMN city TEXT")
    cdc[0].install(files.source, files.table)
    files.source.execute(f"UPDATE {files.table} SET city = 'Oslo' WHERE id = 4")
    files.source.execute(f"UPDATE {files.table} SET visits = 7 WHERE id = 4")
    group = f"replica-of-{files.table}"
    with patient_client(leased) as client:
        parked = ParkedMessages(client, group)

        def waiting():
            with contextlib.suppress(RouteError):  # no member has made the park topic yet
                return {key.key: key.messages for key in parked.list().keys}

        eventually(lambda: waiting() == {"3": 1, "4": 2}, within=60, every=0.1)
        eventually(lambda: len(files.rows(files.copy)) == 9)
        files.copy.execute(f"ALTER TABLE {files.table} ADD COLUMN city TEXT")
        (outcome,) = parked.release("4")
        assert (outcome.settled, outcome.reason) == (2, None)
        assert (4, "good", 7, "Oslo") in files.rows(files.copy)
        files.source.execute(f"UPDATE {files.table} SET name = 'mended' WHERE id = 3")
        eventually(lambda: waiting() == {"3": 2}, within=60, every=0.1)
        parked.drop("3")  # the row is whole in each change: the next one brings all of it
        files.source.execute(f"UPDATE {files.table} SET visits = 1 WHERE id = 3")
        eventually(files.same, within=60, every=0.05)


def message(number, row):
    body = json.dumps({"number": number, "row": row}).encode()
    return Message("customers", body, sharding_key="1")


@pytest.fixture
def copy(tmp_path, cdc):
    """A copy's handler, and what the copy holds."""
    path = tmp_path / "copy.db"
    with closed(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"CREATE TABLE customers {COLUMNS}")
        listener = cdc[1].Replica(str(path), "customers").listener()
        yield listener, lambda: db.execute("SELECT name FROM customers").fetchall()


def test_what_comes_again_changes_nothing(copy):
    listener, names = copy
    for number, name in enumerate(["Ada", "Bea"], 1):
        assert listener.run(message(number, {"id": 1, "name": name})) == Ack()
    assert listener.run(message(1, {"id": 1, "name": "Ada"})) == Ack()
    assert names() == [("Bea",)]
    assert listener.run(message(3, None)) == Ack()
    assert listener.run(message(2, {"id": 1, "name": "Bea"})) == Ack()
    assert names() == [], "a row that was deleted stays so"


def test_a_column_that_the_copy_lacks_parks_and_notes_nothing(copy):
    listener, names = copy
    outcome = listener.run(message(1, {"id": 1, "name": "Ada", "city": "Oslo"}))
    assert outcome == Park("the copy of customers has no column city")
    assert listener.run(message(1, {"id": 1, "name": "Ada"})) == Ack()
    assert names() == [("Ada",)]


class Straight:
    """A producer whose messages are handled at once."""

    def __init__(self, listener):
        self._run = listener.run

    def submit(self, message):
        handled = Future()
        assert self._run(message) == Ack()
        handled.set_result(None)
        return handled


@pytest.fixture
def both(tmp_path, cdc):
    """A captured source and its copy; and a function that carries over what is written down."""
    source, replica, capture = cdc
    path = tmp_path / "copy.db"
    with (
        closed(sqlite3.connect(":memory:", isolation_level=None)) as db,
        closed(sqlite3.connect(path, isolation_level=None)) as copy,
    ):
        for each in (db, copy):
            each.execute(f"CREATE TABLE customers {COLUMNS}")
        source.install(db, "customers")
        to_copy = Straight(replica.Replica(str(path), "customers").listener())
        yield db, copy, lambda: capture.capture(db, "customers", to_copy)


def rows(db):
    return db.execute("SELECT * FROM customers ORDER BY id").fetchall()


@pytest.mark.parametrize("column", ["city TEXT", "city TEXT DEFAULT 'Rome'", "it's TEXT"])
def test_what_changed_between_a_new_column_and_its_triggers_is_not_lost(column, both, cdc):
    db, copy, carry = both
    name, kind = column.split(" ", 1)
    column = f'"{name}" {kind}'
    db.execute("INSERT INTO customers (id, name) VALUES (1, 'Ada'), (2, 'Bea')")
    assert carry() == 2
    for each in (db, copy):
        each.execute(f"ALTER TABLE customers ADD COLUMN {column}")
    db.execute(f"""UPDATE customers SET "{name}" = 'Oslo' WHERE id = 2""")
    cdc[0].install(db, "customers")
    carry()
    assert rows(copy) == rows(db)
    cdc[0].install(db, "customers")
    assert carry() == 0, "nothing is new now"


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, 2**62, 1.5])
def test_numbers_arrive_as_they_are(value, both):
    db, copy, carry = both
    db.execute("INSERT INTO customers VALUES (1, 'Ada', ?)", (value,))
    carry()
    assert rows(copy) == rows(db) == [(1, "Ada", value)]


@pytest.mark.parametrize(
    "columns",
    ["(id INTEGER, name TEXT)", "(a, b, PRIMARY KEY (a, b))", "(id INTEGER PRIMARY KEY, b BLOB)"],
)
def test_a_table_that_cannot_be_captured_is_refused(columns, cdc):
    with closed(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE t {columns}")
        with pytest.raises(ValueError, match="t "):
            cdc[0].install(db, "t")
