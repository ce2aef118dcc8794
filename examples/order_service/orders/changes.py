"""The changes of an order. Each change writes its event into the outbox, in one transaction.

Each is one UPDATE with its own condition, so two at once of one order run one after the other, and
rows of the outbox that are of one order have the order of its changes.
"""

from __future__ import annotations

import json

from sqlalchemy import ColumnElement, RowMapping, case, insert, select, true, update
from sqlalchemy.dialects.postgresql import insert as insert_new  # SQLite has the same words
from sqlalchemy.ext.asyncio import AsyncConnection

from orders.tables import booked, orders, outbox


class UnknownOrder(LookupError):
    """There is no such order."""


async def find(db: AsyncConnection, order_id: str) -> RowMapping | None:
    """Read an order."""
    found = await db.execute(select(orders).where(orders.c.id == order_id))
    return found.mappings().one_or_none()


async def place(db: AsyncConnection, order_id: str, amount: int) -> RowMapping:
    """Place an order.

    Raises:
        sqlalchemy.exc.IntegrityError: there is one of that id.
    """
    values = {"id": order_id, "amount": amount, "paid": 0, "status": "placed", "version": 1}
    placed = await db.execute(insert(orders).values(values).returning(*orders.c))
    order = placed.mappings().one()
    await _tell(db, order)
    return order


async def cancel(db: AsyncConnection, order_id: str) -> bool:
    """Cancel an order; False if it does not exist, or can no longer be cancelled."""
    return await _change(db, order_id, orders.c.status == "placed", status="cancelled")


async def pay(db: AsyncConnection, order_id: str, payment_id: str, cents: int) -> None:
    """Book a payment once, however often it was sent.

    One for a cancelled order is booked as well, for the money is there.

    Raises:
        UnknownOrder: there is no such order.
    """
    note = insert_new(booked).values(payment_id=payment_id).on_conflict_do_nothing()
    if await db.scalar(note.returning(booked.c.payment_id)) is None:
        return
    paid = orders.c.paid + cents
    enough = (orders.c.status == "placed") & (paid >= orders.c.amount)
    status = case((enough, "paid"), else_=orders.c.status)
    if not await _change(db, order_id, true(), paid=paid, status=status):
        raise UnknownOrder(order_id)


async def _change(
    db: AsyncConnection, order_id: str, condition: ColumnElement[bool], **values: object
) -> bool:
    values["version"] = orders.c.version + 1
    statement = update(orders).where(orders.c.id == order_id, condition)
    changed = await db.execute(statement.values(values).returning(*orders.c))
    order = changed.mappings().one_or_none()
    if order is not None:
        await _tell(db, order)
    return order is not None


async def _tell(db: AsyncConnection, order: RowMapping) -> None:
    body = json.dumps(dict(order))
    await db.execute(insert(outbox).values(order_id=order["id"], body=body))
