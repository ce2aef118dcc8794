"""The service: `uvicorn orders.app:app`. Settings are environment variables, see README.md."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Request, Response
from pydantic import BaseModel
from sqlalchemy import RowMapping, func, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from orderly import (
    Client,
    ClientConfig,
    ConsumerConfig,
    OrderlyConsumer,
    OrderlyProducer,
    ProducerConfig,
)
from orders import changes
from orders.payments import Cents, payments
from orders.relay import Relay
from orders.tables import metadata, outbox

GROUP = "order-service"
DATABASE = os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///orders.db")
ORDERS = os.environ.get("ORDERS_TOPIC", "orders")
PAYMENTS = os.environ.get("PAYMENTS_TOPIC", "payments")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Consume and relay as long as the service runs; it starts only if RocketMQ answers.

    The end, in this order: no new handler, the running ones end, offsets are saved and queues
    freed; the relay ends its turn; producer, client and database are closed.
    """
    engine = create_async_engine(DATABASE, pool_pre_ping=True)
    async with engine.begin() as db:
        await db.run_sync(metadata.create_all)  # in production: a migration
    hearing = ConsumerConfig.from_env(order="key", consume_from="first")
    telling = ProducerConfig.from_env(delivery_timeout=10)  # a transaction is open that long
    with (
        Client(ClientConfig.from_env()) as client,
        OrderlyProducer(GROUP, client=client, config=telling) as producer,
    ):
        consumer = OrderlyConsumer(GROUP, payments(engine), client=client, config=hearing)
        async with Relay(engine, producer, ORDERS) as relay, consumer.subscribe(PAYMENTS):
            app.state.engine, app.state.consumer, app.state.relay = engine, consumer, relay
            yield
    await engine.dispose()


app = FastAPI(title="Orders", lifespan=lifespan)
OrderId = Annotated[str, Path(pattern="^[A-Za-z0-9-]{1,64}$")]


class NewOrder(BaseModel):
    """The body of a request that places an order."""

    amount: Cents


@app.put("/orders/{order_id}")
async def place(order_id: OrderId, new: NewOrder, request: Request, response: Response) -> Any:
    """Place an order. The caller chooses the id, so it can repeat the request after a time-out."""
    response.status_code = 201
    try:
        async with _engine(request).begin() as db:
            order = await changes.place(db, order_id, new.amount)
    except IntegrityError:
        order = await _order(request, order_id)
        response.status_code = 200
    if order["amount"] != new.amount:
        raise HTTPException(409, "an order of that id is there, with another amount")
    return dict(order)


@app.post("/orders/{order_id}/cancel")
async def cancel(order_id: OrderId, request: Request) -> Any:
    """Cancel an order that is not paid; repeating the request changes nothing."""
    async with _engine(request).begin() as db:
        await changes.cancel(db, order_id)
    order = await _order(request, order_id)
    if order["status"] != "cancelled":
        raise HTTPException(409, f"the order is {order['status']}")
    return dict(order)


@app.get("/orders/{order_id}")
async def show(order_id: OrderId, request: Request) -> Any:
    """Show an order."""
    return dict(await _order(request, order_id))


@app.get("/live")
async def live(request: Request) -> Any:
    """Whether the process is healthy, so that no restart is needed; asks nobody outside of it."""
    health = request.app.state.consumer.health()
    if not (health.live and request.app.state.relay.alive):
        raise HTTPException(
            503, {"reasons": health.reasons, "relay": request.app.state.relay.alive}
        )
    return {"live": True}


@app.get("/ready")
async def ready(request: Request) -> Any:
    """Whether it can take orders: that needs the database, but no broker."""
    try:
        async with _engine(request).connect() as db:
            await db.execute(select(1))
    except (SQLAlchemyError, OSError) as error:
        raise HTTPException(503, "the database does not answer") from error
    return {"ready": True}


@app.get("/health")
async def health(request: Request) -> Any:
    """Everything, for people: the consumer's queues, the relay, and what waits to be sent."""
    async with _engine(request).connect() as db:
        query = select(func.count(), func.min(outbox.c.written_at)).select_from(outbox)
        waiting, since = (await db.execute(query)).one()
    return {
        "consumer": asdict(request.app.state.consumer.health()),
        "relay": {"alive": request.app.state.relay.alive},
        "outbox": {"waiting": waiting, "since": since},
    }


def _engine(request: Request) -> AsyncEngine:
    engine: AsyncEngine = request.app.state.engine
    return engine


async def _order(request: Request, order_id: str) -> RowMapping:
    async with _engine(request).connect() as db:
        order = await changes.find(db, order_id)
    if order is None:
        raise HTTPException(404, "no such order")
    return order
