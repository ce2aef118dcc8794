"""The application: `faststream run warehouse.app:app`. Settings are environment variables.

Moves of stock come from RocketMQ, those of a product in order. New levels go out over Redis, to any
FastStream subscriber: here to `watch`.
"""

import os
from contextlib import AsyncExitStack
from typing import Annotated

from fast_depends import Depends
from faststream import Context, FastStream, Logger, apply_types
from faststream.redis import RedisBroker
from pydantic import BaseModel, Field
from redis.asyncio import Redis

import orderly
from orderly import (
    Ack,
    Attempt,
    Client,
    ClientConfig,
    ConsumerConfig,
    OrderlyConsumer,
    Outcome,
)
from orderly.once import RedisOnce

GROUP = "warehouse"
MOVES = os.environ.get("MOVES_TOPIC", "stock-moves")
REDIS = os.environ.get("REDIS_URL", "redis://localhost:6379")
LOW = 3

broker = RedisBroker(REDIS)
app = FastStream(broker)
levels = broker.publisher("stock-levels")
once = RedisOnce()


class Move(BaseModel):
    """The body of a message: how many pieces came (or went, below zero)."""

    quantity: Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)]


class Level(BaseModel):
    """How many pieces of a product there are."""

    product: str
    quantity: int


class Shelves:
    """The stock in Redis."""

    def __init__(self, redis: Annotated[Redis, Context()]) -> None:
        self._redis = redis

    async def book(self, move: Move, attempt: Attempt) -> Level:
        """Count a move once, even if its message comes again; return the level after it."""
        counted = ("INCRBY", f"stock:{attempt.key}", move.quantity)
        await once.apply_async(self._redis, attempt.message, attempt, counted)
        quantity = int(await self._redis.get(f"stock:{attempt.key}") or 0)
        return Level(product=str(attempt.key), quantity=quantity)


# What FastStream does for the functions of its subscribers: it fills in dependencies and context.
# Our messages are validated by the listener (`decode`), and its answer is for orderly alone.
filled_in = apply_types(context__=app.context, cast=False, cast_result=False)


@orderly.listener(decode=Move, on_poison="park_key")
@filled_in
async def book(
    move: Move, attempt: Attempt, shelves: Annotated[Shelves, Depends(Shelves)]
) -> Outcome:
    """Book a move and publish the new level; later moves of the product wait for it."""
    await levels.publish(await shelves.book(move, attempt))
    return Ack()  # behind the effect, never in front of it


@broker.subscriber("stock-levels")
async def watch(level: Level, redis: Annotated[Redis, Context()], logger: Logger) -> None:
    """Keep the list of products that run short: an ordinary FastStream subscriber."""
    change = redis.sadd if level.quantity < LOW else redis.srem
    await change("running-short", level.product)
    logger.info("%s: %d", level.product, level.quantity)


running = AsyncExitStack()


@app.on_startup
async def connect() -> None:
    """Connect to what the dependencies need."""
    app.context.set_global("redis", await running.enter_async_context(Redis.from_url(REDIS)))


@app.after_startup
async def consume() -> None:
    """Begin to consume: handlers can publish only once FastStream's brokers run."""
    client = running.enter_context(Client(ClientConfig.from_env()))
    config = ConsumerConfig.from_env(order="key", consume_from="first")
    consumer = OrderlyConsumer(GROUP, book, client=client, config=config)
    await running.enter_async_context(consumer.subscribe(MOVES))


@app.on_shutdown
async def stop() -> None:
    """End before the brokers do: no new handler, the running ones end, offsets are saved."""
    await running.aclose()
