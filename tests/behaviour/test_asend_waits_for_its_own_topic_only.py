"""A topic without a route holds up the messages to it, which keep their order, and no others."""

import asyncio
import threading

import pytest

from orderly import Message, OrderlyProducer
from tests.support.waiting import patient_client

LONG = 60.0


@pytest.fixture
def silent(orderly_namesrv, orderly_topic, closing):
    """A producer to which the name server says nothing about one topic; (producer, topic, gate)."""
    client, topic, gate = closing(patient_client(orderly_namesrv)), orderly_topic(1), Gate()
    fetch = client.routes._fetch

    def fetched(name):
        if name == topic:
            gate.pass_through()
        return fetch(name)

    client.routes._fetch = fetched
    yield closing(OrderlyProducer(client=client)), topic, gate
    gate.open()


class Gate:
    """Holds back whoever passes, until it is opened."""

    def __init__(self):
        self.waiting = 0
        self._open = threading.Event()

    def pass_through(self):
        self.waiting += 1
        assert self._open.wait(LONG)

    def open(self):
        self._open.set()


def messages(topic, count, key="k"):
    return [Message(topic, f"{n}".encode(), sharding_key=key) for n in range(count)]


def test_other_topics_go_on_and_so_do_the_loops_own_threads(silent, topic):
    producer, lost, gate = silent

    async def main():
        waiting = [asyncio.create_task(producer.asend(m)) for m in messages(lost, 100)]
        await asyncio.sleep(0.05)
        known = [producer.asend(message) for message in messages(topic, 5)]
        await asyncio.wait_for(asyncio.gather(*known), LONG)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), LONG) == "free"
        assert not [task for task in waiting if task.done()]
        assert gate.waiting == 1, "one asks for all"
        gate.open()
        return await asyncio.wait_for(asyncio.gather(*waiting), LONG)

    offsets = [result.queue_offset for result in asyncio.run(main())]
    assert offsets == list(range(100)), "in the order of the calls"


def test_who_comes_when_the_route_is_there_does_not_overtake(silent):
    producer, lost, gate = silent

    async def main():
        first = [asyncio.create_task(producer.asend(m)) for m in messages(lost, 20)]
        await asyncio.sleep(0.05)
        gate.open()
        later = []
        while not all(task.done() for task in first):
            later += [asyncio.create_task(producer.asend(m)) for m in messages(lost, 1)]
            await asyncio.sleep(0)
        return await asyncio.gather(*first), await asyncio.gather(*later)

    first, later = asyncio.run(main())
    offsets = [result.queue_offset for result in (*first, *later)]
    assert offsets == list(range(len(offsets)))


def test_a_task_that_is_cancelled_while_it_waits_holds_nobody_up(silent):
    producer, lost, gate = silent

    async def main():
        first, second, third = (asyncio.create_task(producer.asend(m)) for m in messages(lost, 3))
        await asyncio.sleep(0.05)
        first.cancel()
        second.cancel()
        await asyncio.wait([first, second], timeout=LONG)
        assert first.cancelled()
        assert second.cancelled()
        gate.open()
        return await asyncio.wait_for(third, LONG)

    assert asyncio.run(main()).queue_offset == 0
