"""The tables: the orders, the booked payments, and the events to send."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
)

from orderly.once import Once

metadata = MetaData()

orders = Table(
    "orders",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("amount", BigInteger, nullable=False),  # what it costs, in cents
    Column("paid", BigInteger, nullable=False),  # what was paid, in cents
    Column("status", String(16), nullable=False),  # placed, paid, cancelled
    Column("version", Integer, nullable=False),  # 1, and one more with each change
)

# Rows may be deleted when no sender will send them again.
booked = Table("booked", metadata, Column("payment_id", String(64), primary_key=True))

outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("order_id", String(64), nullable=False),
    Column("body", Text, nullable=False),
    Column("written_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("tries", Integer, nullable=False, server_default="0"),  # that failed
    Column("not_before", Float, nullable=False, server_default="0"),  # seconds since 1970
)

once = Once(metadata=metadata)
