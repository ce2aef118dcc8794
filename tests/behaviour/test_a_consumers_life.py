"""A consumer is started once and closed for good; a process may have several, one after another."""

import asyncio
import contextlib
import threading

import pytest

from orderly import ConsumerConfig, ConsumeResult
from orderly.errors import LifecycleError, TopicNotFound
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.waiting import eventually, patient_consumer

KEYS = [f"k{i}" for i in range(8)]


@pytest.fixture
def make(orderly_namesrv, topic, group):
    """Make a consumer of the test's group; not started."""

    def make(handler=None, **known):
        known = known or {"namesrv": orderly_namesrv}
        config = ConsumerConfig(consume_from="first", rebalance_interval=5)
        consumer = patient_consumer(group, handler or Recorder(), config=config, **known)
        return consumer.subscribe(topic)

    return make


def test_it_starts_once(make, topic):
    consumer = make()
    assert consumer.start() is consumer
    with contextlib.closing(consumer):
        with pytest.raises(LifecycleError, match="is running; make a new one"):
            consumer.start()
        eventually(lambda: len(consumer.assignment) == 4, within=20)
    with pytest.raises(LifecycleError, match="is closed; make a new one"):
        consumer.start()
    with pytest.raises(LifecycleError, match="is closed"):
        consumer.subscribe(topic)


def test_nobody_waits_for_one_that_is_not_started(make, topic):
    consumer = make()
    for seconds in (None, 0, 5):
        with pytest.raises(LifecycleError, match="is not started, so it consumes nothing"):
            consumer.wait(seconds)
    consumer.close()
    assert consumer.wait()


def test_nobody_waits_for_one_whose_start_failed(make):
    with contextlib.closing(make().subscribe(unique("nowhere"))) as consumer:
        with pytest.raises(TopicNotFound):
            consumer.start()
        with pytest.raises(LifecycleError, match="is failed; make a new one"):
            consumer.wait()


def test_a_wait_that_would_stop_an_event_loop_is_refused(make, closing):
    consumer = closing(make())

    async def program():
        with pytest.raises(LifecycleError, match=r"await consumer\.run"):
            consumer.wait()

    asyncio.run(program())


def test_closing_ends_its_threads_its_membership_and_whoever_waits(make, client, group):
    assert client.admin.consumer_connections(group) is None
    before = set(threading.enumerate())
    consumer = make().start()
    waiter = threading.Thread(target=consumer.wait)
    waiter.start()
    eventually(lambda: len(consumer.assignment) == 4, within=20)
    assert not consumer.wait(0)
    consumer.close()
    consumer.close()
    waiter.join(30)
    assert consumer.wait(0)
    assert client.admin.consumer_connections(group) is None
    eventually(lambda: set(threading.enumerate()) <= before)


def test_closing_one_that_never_started_is_no_error(make):
    consumer = make()
    consumer.close()
    with pytest.raises(LifecycleError):
        consumer.start()


def test_a_handler_cannot_close_its_own_consumer(producer, topic, make, closing):
    refusals = []

    def act(messages, context):
        try:
            consumer.close()
        except LifecycleError as error:
            refusals.append(str(error))
        return ConsumeResult.SUCCESS

    consumer = closing(make(act))
    send_numbers(producer, topic, ["k"], 1)
    eventually(lambda: refusals, within=20)
    assert "another thread" in refusals[0]
    assert consumer.health().live


def test_one_client_is_one_member_of_a_group(make, client, producer, topic):
    seen = Recorder()
    with make(seen, client=client) as first:
        with pytest.raises(LifecycleError, match="its own client"):
            make(client=client).start()
        eventually(lambda: len(first.assignment) == 4, within=20)
        send_numbers(producer, topic, KEYS, 2)
        eventually(lambda: len(seen.deliveries) == 16, within=20)


def test_after_a_close_the_next_one_goes_on(make, client, producer, topic):
    send_numbers(producer, topic, KEYS, 2)
    for first, shared in [(0, {}), (2, {"client": client}), (4, {"client": client}), (6, {})]:
        seen = Recorder()
        with make(seen, **shared):
            eventually(lambda seen=seen: len(seen.deliveries) >= 16, within=20)
        assert seen.by_key() == {key: [first, first + 1] for key in KEYS}
        send_numbers(producer, topic, KEYS, 2, first=first + 2)


def test_an_error_inside_the_with_block_closes_it_too(make, client, group):
    consumer = make()

    def fail():
        with consumer:
            eventually(lambda: len(consumer.assignment) == 4, within=20)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert consumer.wait(0)
    assert client.admin.consumer_connections(group) is None
