"""A hook may call the consumer, take long, or exit: a close ends in time, nothing stands still."""

import sys
import threading
import time

import pytest

from orderly import ConsumerHooks
from orderly.errors import LifecycleError
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually


def test_a_hook_that_calls_the_consumer_while_it_closes_is_refused_and_hangs_nothing(
    topic, start_member
):
    reached, go_on, refused = threading.Event(), threading.Event(), []

    def assigned(queues):
        reached.set()
        go_on.wait(20)
        try:
            consumer.subscribe(topic, "other")
        except LifecycleError as error:
            refused.append(str(error))

    consumer, _ = start_member(hooks=ConsumerHooks(assigned=assigned))
    assert reached.wait(20)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    eventually(lambda: consumer.state == "closing")
    go_on.set()
    closing.join(20)
    assert not closing.is_alive()
    assert set(refused) == {f"the consumer of group {consumer.group!r} is closing; make a new one"}


def test_a_hook_may_close_the_consumer(topic, start_member, client, group):
    made = threading.Event()

    def assigned(queues):
        made.wait(20)
        consumer.close()

    consumer, _ = start_member(hooks=ConsumerHooks(assigned=assigned))
    made.set()
    assert consumer.wait(20)
    queue = client.routes.get(topic).read_queues()[0]
    assert client.brokers.lock_queues(group, queue.broker_name, [queue]) == {queue}


def test_a_hook_that_takes_long_does_not_move_the_deadline_of_a_close(topic, start_member):
    reached, go_on = threading.Event(), threading.Event()

    def assigned(queues):
        reached.set()
        go_on.wait(60)

    consumer, _ = start_member(hooks=ConsumerHooks(assigned=assigned), close_timeout=0.5)
    assert reached.wait(20)
    began = time.monotonic()
    consumer.close()
    took = time.monotonic() - began
    go_on.set()
    assert took < 30, "as long as the hook"


@pytest.mark.parametrize("name", ["assigned", "before", "after"])
def test_a_hook_that_exits_ends_no_thread_of_ours(name, producer, topic, start_group):
    hooks = ConsumerHooks(**{name: lambda *_: sys.exit(1)})
    seen = start_group(hooks=hooks, concurrency=1).seen
    send_numbers(producer, topic, ["a", "b"], 3)
    eventually(lambda: seen.by_key() == {"a": [0, 1, 2], "b": [0, 1, 2]}, within=20)
