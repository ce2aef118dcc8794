"""With order="key" different keys of one queue run at the same time, and one key never does."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly import Ack, Message
from tests.support.consuming import Blocking, judged_by_key, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(12)]  # more than there are queues: some share one
COUNT = 5
PATIENCE = 20.0  # seconds


@pytest.fixture(params=["threads", "coroutines"])
def meet(request, closing):
    """An act that ends only while one of every key is under way, and fails if that never is."""
    barrier = threading.Barrier(len(KEYS))
    pool = closing(ThreadPoolExecutor(len(KEYS)))

    def meet(messages, context):
        barrier.wait(PATIENCE)
        return Ack()

    async def meet_as_coroutine(messages, context):
        await asyncio.get_running_loop().run_in_executor(pool, barrier.wait, PATIENCE)
        return Ack()

    return meet if request.param == "threads" else meet_as_coroutine


def test_all_keys_meet_while_each_keeps_its_order(meet, producer, topic, start_group):
    group = start_group(meet, order="key", concurrency=len(KEYS))
    # Key by key: the later messages of one are there while its first still waits for the others.
    sent = [send_numbers(producer, topic, [key], COUNT) for key in KEYS]
    results = [of_key[number] for number in range(COUNT) for of_key in sent]
    eventually(lambda: len(group.seen.deliveries) >= len(results), within=40)
    verdict = judged_by_key(KEYS, results, group.seen)
    assert verdict.ok, verdict
    assert verdict.duplicates == 0, "nobody waited in vain"


def test_no_more_run_than_concurrency_says(producer, topic, start_member):
    running, most, lock, three = set(), [0], threading.Lock(), threading.Event()

    async def count(messages, context):
        with lock:
            running.add(context.key)
            most[0] = max(most[0], len(running))
            if len(running) == 3:
                three.set()
        while not three.is_set():  # noqa: ASYNC110 - whichever loop it runs on
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)  # time for a fourth one, if there is one
        with lock:
            running.discard(context.key)
        return Ack()

    _, seen = start_member(count, order="key", concurrency=3)
    send_numbers(producer, topic, KEYS, COUNT)
    eventually(lambda: len(seen.deliveries) == len(KEYS) * COUNT, within=20)
    assert most == [3]


@pytest.fixture
def one_queue(orderly_topic):
    return orderly_topic(queues=1)


def test_messages_without_a_key_keep_queue_order_among_themselves(
    one_queue, producer, start_member
):
    with Blocking(at=0) as handler:

        def hold_up_keyless(messages, context):
            return handler(messages, context) if context.key is None else Ack()

        consumer, seen = start_member(hold_up_keyless, order="key", concurrency=8)
        consumer.subscribe(one_queue)
        send_numbers(producer, one_queue, [None, "a", "b"], 4)
        eventually(lambda: seen.by_key() == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}, within=20)
        assert handler.running, "the first one without a key runs all the time"
    eventually(lambda: len(seen.deliveries) == 12, within=20)
    assert seen.numbers(None) == [0, 1, 2, 3]


def test_a_function_of_the_users_says_what_the_key_is(one_queue, producer, start_member):
    barrier = threading.Barrier(2)
    given = []

    def meet(messages, context):
        given.append((context.key, messages[0].tags))
        barrier.wait(PATIENCE)
        return Ack()

    consumer, seen = start_member(meet, order="key", key=lambda message: (message.tags,))
    consumer.subscribe(one_queue)
    for number in range(10):
        text, tag = str(number).encode(), "even" if number % 2 == 0 else "odd"
        producer.send(Message(one_queue, text, sharding_key=str(number), tags=tag))
    eventually(lambda: len(seen.deliveries) == 10, within=20)
    assert all(key == (tag,) for key, tag in given)
    begun = [d.number for d in sorted(seen.deliveries, key=lambda d: d.started)]
    assert [n for n in begun if n % 2] == [1, 3, 5, 7, 9]
    assert [n for n in begun if n % 2 == 0] == [0, 2, 4, 6, 8]
