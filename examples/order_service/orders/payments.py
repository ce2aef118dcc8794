"""Payments come from another system, in order for each order, and are booked once."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncEngine

import orderly
from orderly import Ack, AsyncListener, Attempt, Outcome
from orders.changes import UnknownOrder, pay
from orders.tables import once

# Strict: neither "5" nor true. The limit leaves room for sums in a column of 64 bits.
Cents = Annotated[int, Field(strict=True, gt=0, le=10**15)]


class Payment(BaseModel):
    """A message's body. The sender repeats a payment with the same id."""

    id: Annotated[str, Field(pattern="^[A-Za-z0-9-]{1,64}$")]
    cents: Cents


def payments(engine: AsyncEngine) -> AsyncListener:
    """Make the consumer's handler.

    A payment that cannot be read, or of an order that nobody knows, parks its order's payments; if
    the database is away, all wait.
    """

    @orderly.listener(decode=Payment, on_error={UnknownOrder: "park_key"}, on_poison="park_key")
    async def book(payment: Payment, attempt: Attempt) -> Outcome:
        async with engine.begin() as db:
            if await once.apply_async(db, attempt.message, attempt):
                await pay(db, str(attempt.key), payment.id, payment.cents)
        return Ack()  # behind the commit, never in front of it

    return book
