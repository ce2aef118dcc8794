"""Sending from event loops: the same order, and the loop is never blocked."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from orderly.config import ProducerConfig
from orderly.errors import BrokerBusy, PrecedingSendFailed, SendFailed, TopicNotFound
from orderly.message import Message

PATIENCE = 30.0


def message(body: str, key: str | None = "k") -> Message:
    return Message("T", body.encode(), sharding_key=key)


def test_a_result_is_awaited(start):
    async def main(producer):
        return await producer.asend(message("m"))

    assert asyncio.run(main(start())).queue_offset == 0


def test_tasks_of_one_loop_keep_the_order_of_their_calls(start, broker, client):
    client.fetch_gate.clear()  # the first ones have to wait for the route

    async def main(producer):
        tasks = [asyncio.create_task(producer.asend(message(f"m{n}"))) for n in range(10)]
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(producer.asend(message(f"m{n}"))) for n in range(10, 20)]
        client.fetch_gate.set()
        tasks += [asyncio.create_task(producer.asend(message(f"m{n}"))) for n in range(20, 30)]
        await asyncio.gather(*tasks)

    asyncio.run(main(start()))
    assert broker.stored == [f"m{number}".encode() for number in range(30)]


def test_the_loop_goes_on_while_a_route_is_fetched(start, client):
    client.fetch_gate.clear()
    ticks = 0

    async def main(producer):
        nonlocal ticks
        sending = asyncio.create_task(producer.asend(message("m")))
        for _ in range(10):
            await asyncio.sleep(0.005)
            ticks += 1
        assert not sending.done()
        client.fetch_gate.set()
        await sending

    asyncio.run(main(start()))
    assert ticks == 10


def test_the_loop_goes_on_while_a_connection_is_opened_and_the_producer_is_full(start, broker):
    broker.connected = False
    broker.holding = True

    async def main(producer):
        began = time.monotonic()
        tasks = [asyncio.create_task(producer.asend(message(f"m{n}"))) for n in range(20)]
        await asyncio.sleep(0.05)
        assert time.monotonic() - began < 20
        broker.let_go()
        await asyncio.gather(*tasks)

    asyncio.run(main(start(config=ProducerConfig(max_pending=2))))
    assert broker.stored == [f"m{number}".encode() for number in range(20)]


def test_several_loops_share_a_producer(start, broker):
    producer = start()

    async def main(key):
        for number in range(50):
            await producer.asend(message(f"{key}{number}", key))

    threads = [threading.Thread(target=lambda k=k: asyncio.run(main(k))) for k in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for key in "abcd":
        mine = [body for body in broker.stored if body.startswith(key.encode())]
        assert mine == [f"{key}{number}".encode() for number in range(50)]


def test_a_cancelled_task_withdraws_a_message_that_waits(start, broker):
    async def main(producer):
        first, second, third = (
            asyncio.create_task(producer.asend(message(f"m{number}"))) for number in range(3)
        )
        await asyncio.to_thread(broker.wait_for_requests, 1)
        await asyncio.sleep(0.02)  # the other two have queued up behind it
        second.cancel()
        await asyncio.sleep(0)
        broker.let_go()
        await asyncio.gather(first, third)
        with pytest.raises(asyncio.CancelledError):
            await second

    broker.holding = True
    asyncio.run(main(start()))
    assert broker.stored == [b"m0", b"m2"]


def test_failures_are_raised_where_the_message_was_awaited(start, broker):
    broker.script = lambda _: BrokerBusy("busy", code=2)

    async def main(producer):
        with pytest.raises(SendFailed):
            await producer.asend(message("m"))
        with pytest.raises(PrecedingSendFailed):
            await producer.asend(message("n"))
        with pytest.raises(TopicNotFound):
            await producer.asend(Message("nowhere", b"x", sharding_key="k"))
        broker.script = lambda _: None
        await producer.asend(message("o", key="other"))

    asyncio.run(main(start(config=ProducerConfig(retries=0))))
    assert broker.stored == [b"o"]
