"""`async with consumer` and `await consumer.run()`: handlers run on the caller's event loop."""

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly import Ack, ConsumerConfig, Message
from orderly.consumer.runtime import Lifecycle
from orderly.errors import LifecycleError
from orderly.ordering.explain import Why
from tests.support.consuming import AsyncRecorder, judged_by_key, send_numbers, unique
from tests.support.waiting import eventually, patient_consumer, patient_producer

KEYS = [f"k{i}" for i in range(8)]
COUNT = 5
QUEUES = 4  # of `topic`


@pytest.fixture
def make(orderly_namesrv, topic, closing):
    """Make a consumer of a group of its own; not started."""

    def make(handler, group=None, **settings):
        config = ConsumerConfig(**{"consume_from": "first", "order": "key"} | settings)
        group = group or unique("group")
        consumer = patient_consumer(group, handler, namesrv=orderly_namesrv, config=config)
        return consumer.subscribe(topic)

    return make


def test_a_producer_of_the_loop_sends_what_is_pending_before_it_ends(
    orderly_namesrv, topic, client
):
    async def main():
        async with patient_producer(orderly_namesrv) as producer:
            sent = [producer.submit(Message(topic, f"{n}", "k")) for n in range(50)]
            ticking = asyncio.create_task(asyncio.sleep(0))
        await ticking
        assert all(future.done() for future in sent)
        return [future.result().queue_offset for future in sent]

    assert asyncio.run(main()) == list(range(50))


async def soon(condition, within=60.0):
    """`eventually`, without holding the loop up."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - it is of other threads
            await asyncio.sleep(0.005)


def threads_of(group):
    return [thread for thread in threading.enumerate() if group in thread.name]


def test_handlers_run_on_the_callers_loop_and_all_is_saved_at_the_end(
    producer, topic, group, client, make
):
    loops, running, together = set(), set(), asyncio.Event()

    async def handler(messages, context):
        loops.add(asyncio.get_running_loop())
        running.add(context.key)
        if len(running) > QUEUES:
            together.set()
        await asyncio.wait_for(together.wait(), 20)
        running.discard(context.key)
        return Ack()

    seen = AsyncRecorder(handler)
    results = send_numbers(producer, topic, KEYS, COUNT)

    async def program():
        async with make(seen, group, commit_interval=3600) as consumer:
            await soon(lambda: len(seen.deliveries) == len(results))
            assert len(consumer.assignment) == QUEUES
            with pytest.raises(LifecycleError, match="aclose"):
                consumer.close()  # would block the loop its handlers need
        return asyncio.get_running_loop()

    assert loops == {asyncio.run(program())}
    assert together.is_set(), "keys of a queue run side by side"
    verdict = judged_by_key(KEYS, results, seen)
    assert verdict.ok, verdict
    ends = {}
    for result in results:
        ends[result.queue] = max(ends.get(result.queue, 0), result.queue_offset + 1)
    assert {queue: client.brokers.query_offset(group, queue) for queue in ends} == ends
    eventually(lambda: threads_of(group) == [])


def test_a_cancelled_run_waits_for_its_handlers_and_closes(producer, topic, group, client, make):
    begun, consumers = asyncio.Event(), []

    async def handler(messages, context):
        begun.set()
        await soon(lambda: Why.LEAVING in [e.why for e in consumers[0].explain()])
        return Ack()

    seen = AsyncRecorder(handler)
    queue = send_numbers(producer, topic, ["a"], 3)[0].queue

    async def program():
        consumer = make(seen, group)
        consumers.append(consumer)
        task = asyncio.create_task(consumer.run())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return consumer

    consumer = asyncio.run(program())
    assert consumer.wait(0)
    assert [(d.number, d.success) for d in seen.deliveries] == [(0, True)]
    assert client.brokers.query_offset(group, queue) == 1
    assert client.brokers.lock_queues(group, queue.broker_name, [queue]) == {queue}


@pytest.mark.parametrize("closes", ["by a signal", "in another task", "in a thread"])
def test_a_run_that_is_cancelled_while_it_closes_ends_with_the_close(
    closes, producer, topic, group, client, make
):
    """However often: a framework that gives up, a TaskGroup, the end of asyncio.run."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(messages, context):
        begun.set()
        await go_on.wait()
        return Ack()

    seen = AsyncRecorder(handler)
    queue = send_numbers(producer, topic, ["a"], 3)[0].queue

    async def program():
        consumer = make(seen, group)
        task = asyncio.create_task(consumer.run())
        await begun.wait()
        other = []
        if closes == "by a signal":
            signal.raise_signal(signal.SIGTERM)
        elif closes == "in another task":
            other.append(asyncio.create_task(consumer.aclose()))
        else:
            threading.Thread(target=consumer.close).start()
        await soon(lambda: consumer.state == "closing")
        for _ in range(3):
            for each in (task, *other):
                each.cancel()
            await asyncio.sleep(0.05)
            assert not task.done(), "its handlers still run"
        go_on.set()
        for each in (task, *other):
            with pytest.raises(asyncio.CancelledError):
                await each
        return consumer.state

    assert asyncio.run(program()) == "closed"
    assert [(d.number, d.success) for d in seen.deliveries] == [(0, True)]
    assert client.brokers.query_offset(group, queue) == 1
    assert client.brokers.lock_queues(group, queue.broker_name, [queue]) == {queue}


def test_a_block_that_is_cancelled_while_it_ends_has_ended(producer, topic, group, client, make):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(messages, context):
        begun.set()
        await go_on.wait()
        return Ack()

    queue = send_numbers(producer, topic, ["a"], 1)[0].queue
    consumers = []

    async def block():
        async with make(AsyncRecorder(handler), group) as consumer:
            consumers.append(consumer)
            await begun.wait()

    async def program():
        task = asyncio.create_task(block())
        await soon(lambda: consumers and consumers[0].state == "closing")
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.05)
            assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return consumers[0].state

    assert asyncio.run(program()) == "closed"
    assert client.brokers.query_offset(group, queue) == 1


def test_a_run_ends_when_the_consumer_is_closed_elsewhere(make):
    async def program():
        consumer = make(AsyncRecorder(None))
        task = asyncio.create_task(consumer.run())
        await soon(lambda: len(consumer.assignment) == 4)
        await consumer.aclose()
        await asyncio.wait_for(task, 30)

    asyncio.run(program())


def test_a_run_that_is_cancelled_while_it_starts_leaves_nothing_behind(
    monkeypatch, group, client, make
):
    starting, go_on = threading.Event(), threading.Event()
    start = Lifecycle.start

    def slow_start(self, loop):
        starting.set()
        assert go_on.wait(20)
        return start(self, loop)

    monkeypatch.setattr(Lifecycle, "start", slow_start)

    async def program():
        task = asyncio.create_task(make(AsyncRecorder(None), group).run())
        await soon(starting.is_set)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(program())
    eventually(lambda: threads_of(group) == [])
    assert client.admin.consumer_connections(group) is None


def test_more_of_them_than_the_loop_has_threads(producer, topic, make):
    seen = [AsyncRecorder(ack) for _ in range(4)]

    async def program():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        tasks = [asyncio.create_task(make(recorder).run()) for recorder in seen]
        await soon(lambda: all(recorder.numbers("a") == [0] for recorder in seen))
        for task in tasks:
            task.cancel()
        done, pending = await asyncio.wait(tasks, timeout=30)
        assert (len(done), len(pending)) == (4, 0)

    send_numbers(producer, topic, ["a"], 1)
    asyncio.run(program())


async def ack(messages, context):
    return await asyncio.to_thread(Ack)  # what the threads are there for


def test_a_running_consumer_is_refused_and_the_programs_loop_goes_on(topic, producer, make):
    loops = set()

    async def notes(messages, context):
        loops.add(asyncio.get_running_loop())
        return Ack()

    seen = AsyncRecorder(notes)
    consumer = make(seen).start()  # on a loop of its own
    send_numbers(producer, topic, ["a"], 1)
    eventually(lambda: seen.numbers("a") == [0])

    async def program():
        with pytest.raises(LifecycleError, match="running"):
            async with consumer:
                pass
        send_numbers(producer, topic, ["b"], 1)
        await soon(lambda: seen.numbers("b") == [0])
        await consumer.aclose()
        return asyncio.get_running_loop()

    assert asyncio.run(program()) not in loops, "and the program's loop is left alone"
    assert len(loops) == 1


def test_a_handler_that_wants_to_close_its_own_consumer_is_told_so_at_once(topic, producer, make):
    told, consumers = [], []

    async def closes(messages, context):
        try:
            await consumers[0].aclose()
        except LifecycleError as error:
            told.append(str(error))
        return Ack()

    async def program():
        async with make(closes) as consumer:
            consumers.append(consumer)
            send_numbers(producer, topic, ["a"], 1)
            await soon(lambda: told)

    asyncio.run(program())
    assert "another thread or task" in told[0]


def test_a_consumer_whose_loop_ended_without_it_is_closed_from_outside(
    topic, producer, group, client, make
):
    begun = []

    async def hangs(messages, context):
        begun.append(context.key)
        await asyncio.Event().wait()

    consumer = make(hangs, group, concurrency=2, close_timeout=15, suspend=15)
    queue = send_numbers(producer, topic, KEYS, 1)[0].queue

    async def program():
        await consumer.__aenter__()
        await soon(lambda: len(begun) == 2)
        await soon(lambda: sum(e.cached for e in consumer.explain()) == len(KEYS))  # all wait

    asyncio.run(program())
    consumer.close()
    eventually(lambda: threads_of(group) == [])  # all was released in time
    assert len(begun) == 2, "no handler began on a loop that was ending"
    assert client.brokers.lock_queues(group, queue.broker_name, [queue]) == {queue}
