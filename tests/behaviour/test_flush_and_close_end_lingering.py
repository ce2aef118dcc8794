"""`linger` is for company, not for the end: flush and close send what waits for it at once."""

import asyncio
import threading
import time

import pytest

from orderly import Message, OrderlyProducer, ProducerConfig
from tests.support.waiting import patient_client

LINGER = 10.0  # as much as is allowed
LONG = 60.0


@pytest.fixture
def producer(orderly_namesrv, topic, closing):
    """It lingers; its connections are open."""
    client = closing(patient_client(orderly_namesrv))
    config = ProducerConfig(linger=LINGER, send_timeout=LONG)
    producer = closing(OrderlyProducer(client=client, config=config))
    for key in "abcd":
        producer.send(Message(topic, b"first", sharding_key=key))
    return producer


def submitted(producer, topic, count=20):
    return [
        producer.submit(Message(topic, f"{n}".encode(), sharding_key="abcd"[n % 4]))
        for n in range(count)
    ]


def shorter_than_linger(call, times=3):
    """Call it again and again until it is quick once: the machine may have stood still."""
    took = []
    while len(took) < times and not [each for each in took if each < LINGER / 2]:
        began = time.monotonic()
        call()
        took.append(time.monotonic() - began)
    return min(took) < LINGER / 2


def test_flush(producer, topic):
    def flush():
        futures = submitted(producer, topic)
        assert producer.flush(LONG)
        assert all(future.done() for future in futures)

    assert shorter_than_linger(flush)


def test_flush_while_others_go_on_sending(producer, topic):
    over = threading.Event()

    def chatter():
        while not over.is_set():
            producer.submit(Message(topic, b"chatter", sharding_key="a")).result(LONG)

    talking = threading.Thread(target=chatter, daemon=True)
    talking.start()

    def flush():
        (future,) = submitted(producer, topic, 1)
        producer.flush(LINGER / 2)
        assert future.done()

    assert shorter_than_linger(flush)
    over.set()
    assert producer.flush(LONG)
    talking.join(LONG)
    assert not talking.is_alive()


def test_aflush(producer, topic):
    async def main():
        tasks = [
            asyncio.create_task(producer.asend(Message(topic, b"a", sharding_key="a")))
            for _ in range(5)
        ]
        await asyncio.sleep(0)
        assert await producer.aflush(LONG)
        await asyncio.gather(*tasks)

    assert shorter_than_linger(lambda: asyncio.run(main()))


@pytest.mark.parametrize("close", ["close", "aclose"])
def test_close_stores_everything_within_its_time(producer, topic, close):
    futures = submitted(producer, topic, 200)
    if close == "close":
        producer.close(timeout=LINGER)
    else:
        asyncio.run(producer.aclose(timeout=LINGER))
    assert [future.exception(0) for future in futures] == [None] * 200
