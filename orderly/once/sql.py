"""The row in a table of the user's database, by SQLAlchemy, in the user's own transaction.

Two statements a message: read the row and lock it, then write it. The lock makes a second owner
of the key wait until the first one's transaction has ended.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from orderly.config.arguments import check_given, check_kind, check_text
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage
from orderly.once.rule import (
    MAX_KEY,
    Naming,
    Owner,
    Row,
    RowPlace,
    Verdict,
    arrival,
    check_call,
    decide,
    report_refusal,
)

_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class Once:
    """Decides whether to apply a message's effect, and records that it is applied.

        once = Once()
        with engine.begin() as db:
            if once.apply(db, message, context):
                db.execute(entry)

    For PostgreSQL and SQLite. Thread-safe; one object is enough for all handlers of a program.

    Args:
        table_name: of the table; create it with `metadata.create_all(engine)` or a migration.
        metadata: SQLAlchemy's, to put the table among your own.
        cluster: any name, to distinguish brokers of the same name in two clusters.
        generation: raise it by 1, for all members at once, to apply every effect again: after a
            deliberate reset of offsets, or when the topic was deleted and created again.
        redact: store and log hashes of keys, for keys that are personal data.

    Attributes:
        table: one row for each key of each queue and group.
        metadata: what the table belongs to.

    Raises:
        ConfigError: an invalid generation, or an argument of another kind.
    """

    def __init__(
        self,
        *,
        table_name: str = "orderly_once",
        metadata: MetaData | None = None,
        cluster: str = "",
        generation: int = 0,
        redact: bool = False,
    ) -> None:
        check_text("table_name", table_name, empty=False)
        check_given("metadata", metadata, MetaData)
        self._naming = Naming(cluster, generation, redact)
        self.metadata = MetaData() if metadata is None else metadata
        self.table = _table(table_name, self.metadata)

    def apply(self, connection: Connection, message: ReceivedMessage, context: Owner) -> Verdict:
        """Check whether to apply the message, and record it in the connection's transaction.

        If the result is true, apply the effect in the same transaction. If it is false, the effect
        is there already: acknowledge the message. LockLost and QueueRecreated acknowledge nothing;
        a `with engine.begin()` around the call rolls back.

        Args:
            connection: in a transaction of any isolation level, not in AUTOCOMMIT. Of a Session:
                `session.connection()`.
            message: with a batch, pass its messages one by one, in order.
            context: of the handler's call.

        Returns:
            APPLY; or REPEAT or DUPLICATE, each with an event.

        Raises:
            LockLost: a later owner has worked on the key (STALE_OWNER).
            QueueRecreated: the topic was deleted and created again (RECREATED).
            ConfigError: another database, AUTOCOMMIT, or a key that cannot be stored.
            sqlalchemy.exc.SQLAlchemyError: the database's failure; the message comes again.
        """
        _check_dialect(connection)
        place, came = self._naming.place(message, context), arrival(message, context)
        while True:
            row = self._locked(connection, place)
            _check_transaction(connection)
            verdict, new = decide(row, came)
            if new == row or self._written(connection, place, new, fresh=row is None):
                break
        found = (new.offset, new.token) if row is None else (row.offset, row.token)
        report_refusal(verdict, place, message, came.token, found, redact=context.redact_keys)
        return verdict

    async def apply_async(
        self, connection: AsyncConnection, message: ReceivedMessage, context: Owner
    ) -> Verdict:
        """The same as `apply`, on an AsyncConnection."""
        check_kind("connection", connection, AsyncConnection, "an AsyncConnection")
        check_call(message, context)
        return await connection.run_sync(self.apply, message, context)

    def _locked(self, connection: Connection, place: RowPlace) -> Row | None:
        """Read the row and keep others from writing it until the transaction ends."""
        table, at = self.table, self._at(place)
        if connection.dialect.name == "sqlite":
            # It has no lock of a row. A write, of no row even, takes the lock of the database: what
            # is read after it is true until the end, however the transaction was begun.
            lock = update(table).where(at).values(queue_offset=table.c.queue_offset)
            connection.execute(lock)
        columns = (table.c.queue_offset, table.c.token, table.c.stored_at, table.c.recent)
        found = connection.execute(select(*columns).where(at).with_for_update()).one_or_none()
        if found is None:
            return None
        return Row(found[0], found[1], found[2], tuple(found[3].split()))

    def _written(self, connection: Connection, place: RowPlace, row: Row, *, fresh: bool) -> bool:
        """Store the row; False if it was to be a new one and somebody else made it meanwhile."""
        values = {
            "queue_offset": row.offset,
            "token": row.token,
            "stored_at": row.stored_at,
            "recent": " ".join(row.recent),
        }
        if not fresh:
            connection.execute(update(self.table).where(self._at(place)).values(values))
            return True
        insert = _INSERT[connection.dialect.name](self.table).on_conflict_do_nothing()
        inserted = insert.values(_names(place) | values).returning(self.table.c.queue_id)
        return connection.execute(inserted).first() is not None  # a row count may be unknown

    def _at(self, place: RowPlace) -> ColumnElement[bool]:
        return and_(*(self.table.c[name] == value for name, value in _names(place).items()))


def _names(place: RowPlace) -> dict[str, str | int]:
    """The primary key's columns."""
    return {
        "consumer_group": place.group,
        "cluster": place.cluster,
        "topic": place.topic,
        "broker": place.broker,
        "queue_id": place.queue_id,
        "generation": place.generation,
        "message_key": place.key,
    }


def _table(name: str, metadata: MetaData) -> Table:
    return Table(
        name,
        metadata,
        Column("consumer_group", String(255), primary_key=True),
        Column("cluster", String(255), primary_key=True),
        Column("topic", String(255), primary_key=True),
        Column("broker", String(255), primary_key=True),
        Column("queue_id", Integer, primary_key=True, autoincrement=False),
        Column("generation", Integer, primary_key=True, autoincrement=False),
        Column("message_key", String(MAX_KEY + 1), primary_key=True),
        Column("queue_offset", BigInteger, nullable=False),
        Column("token", BigInteger),
        Column("stored_at", BigInteger, nullable=False),
        Column("recent", Text, nullable=False),
    )


def _check_dialect(connection: Connection) -> None:
    check_kind("connection", connection, Connection, "a Connection (session.connection())")
    if connection.dialect.name not in _INSERT:
        raise ConfigError(
            f"Once supports PostgreSQL and SQLite, not {connection.dialect.name}: there, compare"
            " offset and token in a statement of your own"
        )


def _check_transaction(connection: Connection) -> None:
    """Raise unless a transaction is open. SQLite's drivers open it with the first write only."""
    drivers: Any = connection.connection
    if connection.dialect.name == "sqlite":
        is_open = drivers.driver_connection.in_transaction
    else:
        is_open = not drivers.dbapi_connection.autocommit
    if not is_open:
        raise ConfigError(
            "the connection is in AUTOCOMMIT, but the effect and its record must be in one"
            " transaction; use `with engine.begin() as connection`"
        )
