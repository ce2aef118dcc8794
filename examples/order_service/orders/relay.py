"""Sends the events in the outbox: in order for each order, each at least once.

One relay at a time sends, however many processes there are. A row is deleted after it was sent, so
one that is killed in between leaves it to be sent again: receivers look at the event's version. A
row that cannot be sent keeps back its order, longer each time, and no other one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Self

from sqlalchemy import RowMapping, Select, delete, func, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from orderly import Message, OrderlyError, OrderlyProducer
from orders.tables import outbox

BATCH = 200  # rows of one turn
POLL = 0.2  # seconds between two looks into an empty outbox
RETRY = 1.0  # seconds until a database that did not answer is asked again
LONGEST = 60  # seconds; at most so long after a failure an event is tried again
_TURN = 1_862_004  # any number that no other advisory lock of this database has

log = logging.getLogger(__name__)


class Relay:
    """Runs as a task inside `async with`; leaving it waits for the current turn.

    Args:
        engine: of the database with the outbox.
        producer: a running one, used by nobody else for this topic.
        topic: where the events go.
    """

    def __init__(self, engine: AsyncEngine, producer: OrderlyProducer, topic: str) -> None:
        self._engine = engine
        self._producer = producer
        self._topic = topic
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs; only a defect ends it."""
        return self._task is not None and not self._task.done()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while not self._stop.is_set():
                await self._step()
        except Exception:  # a defect; /live and /health report it, too
            log.exception("the relay ends")
            raise

    async def _step(self) -> None:
        try:
            found = await self.turn()
        except (SQLAlchemyError, OSError) as error:
            log.warning("the database does not answer, the outbox waits: %s", error)
            await self._pause(RETRY)
        else:
            if not found:
                await self._pause(POLL)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def turn(self) -> int:
        """Send the oldest rows that do not have to wait; returns how many there were."""
        async with self._engine.begin() as db:
            if not await _is_mine(db):
                return 0
            rows = (await db.execute(_due(time.time()))).mappings().all()
            sent, failed = await self._send(rows)
            if sent:
                await db.execute(delete(outbox).where(outbox.c.id.in_(sent)))
            for row in failed:
                await _put_off(db, row)
        return len(rows)

    async def _send(self, rows: Sequence[RowMapping]) -> tuple[list[int], list[RowMapping]]:
        """Send orders side by side; returns ids that were sent, and rows that were refused."""
        by_order: dict[str, list[RowMapping]] = defaultdict(list)
        for row in rows:
            by_order[row["order_id"]].append(row)
        counts = await asyncio.gather(*map(self._send_in_turn, by_order.values()))
        orders = list(zip(by_order.values(), counts, strict=True))
        sent = [row["id"] for events, count in orders for row in events[:count]]
        return sent, [events[count] for events, count in orders if count < len(events)]

    async def _send_in_turn(self, events: Sequence[RowMapping]) -> int:
        """Send the events of one order up to the first failure; returns how many were sent."""
        for sent, row in enumerate(events):
            message = Message(self._topic, row["body"].encode(), sharding_key=row["order_id"])
            try:
                await self._producer.asend(message)
            except OrderlyError as error:
                log.warning(
                    "an event of order %s was not sent, it waits: %s", row["order_id"], error
                )
                self._producer.resume(row["order_id"])  # this very event is the next one of the key
                return sent
        return len(events)


def _due(now: float) -> Select[Any]:
    """The oldest rows of orders that do not wait after a failure."""
    waiting = select(outbox.c.order_id).where(outbox.c.not_before > now)
    free = select(outbox).where(outbox.c.order_id.not_in(waiting))
    return free.order_by(outbox.c.id).limit(BATCH)


async def _put_off(db: AsyncConnection, row: RowMapping) -> None:
    tries = row["tries"]
    later = {"tries": tries + 1, "not_before": time.time() + min(2**tries, LONGEST)}
    await db.execute(update(outbox).where(outbox.c.id == row["id"]).values(later))


async def _is_mine(db: AsyncConnection) -> bool:
    """Whether it is this relay's turn, until the transaction ends; SQLite: run one process."""
    if db.dialect.name != "postgresql":
        return True
    return bool(await db.scalar(select(func.pg_try_advisory_xact_lock(_TURN))))
