"""Payments come from another system, in order by order, and are booked once."""

from __future__ import annotations

from pydantic import BaseModel, PositiveInt
from sqlalchemy.ext.asyncio import AsyncEngine

import orderly
from orderly import Ack, AsyncListener, Attempt, Outcome
from orders.changes import UnknownOrder, pay
from orders.tables import once


class Payment(BaseModel):
    """What a body says."""

    cents: PositiveInt


def payments(engine: AsyncEngine) -> AsyncListener:
    """Make the consumer's handler.

    A payment that cannot be read, or of an order that nobody knows, parks its order's payments; if
    the database is away, all wait.
    """

    @orderly.listener(decode=Payment, fatal=(UnknownOrder,), on_poison="park_key")
    async def book(payment: Payment, attempt: Attempt) -> Outcome:
        async with engine.begin() as db:
            if await once.apply_async(db, attempt.message, attempt):
                await pay(db, str(attempt.key), payment.cents)
        return Ack()  # behind the commit, never in front of it

    return book
