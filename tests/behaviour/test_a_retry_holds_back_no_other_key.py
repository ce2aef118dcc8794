"""A listener's retries wait without a thread: other keys go on, behind it nothing of its own."""

import threading

import pytest
import tenacity

from orderly import Ack, AsyncListener, Listener, Retry
from tests.support.consuming import judged_by_key, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(8)]
STUCK = "k3"
COUNT = 6
TRIES = 4
LONG = 28  # seconds of a wait; 30 is the longest


class Shipping:
    """The first message of one key fails until it was tried TRIES times and may pass."""

    def __init__(self):
        self.passes, self.tries = threading.Event(), []
        self.calls = []  # keys, in the order of all calls

    def __call__(self, message, attempt):
        self.calls.append(message.sharding_key)
        if (message.sharding_key, int(message.body)) == (STUCK, 0):
            self.tries.append(attempt.number)
            if attempt.number < TRIES or not self.passes.is_set():
                raise OSError("down")
        return Ack()

    async def awaited(self, message, attempt):
        return self(message, attempt)


def made(kind, shipping, wait):
    retry = Retry(stop=tenacity.stop_after_attempt(100), wait=tenacity.wait_fixed(wait))
    if kind == "async":
        return AsyncListener(shipping.awaited, retry=retry)
    return Listener(shipping, retry=retry)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_with_one_handler_at_a_time_the_others_are_all_done(kind, producer, topic, start_group):
    shipping = Shipping()
    listener = made(kind, shipping, 0.02)

    def act(messages, context):
        return listener(messages, context)

    async def act_async(messages, context):
        return await listener(messages, context)

    group = start_group(act_async if kind == "async" else act, order="key", concurrency=1)
    results = send_numbers(producer, topic, KEYS, COUNT)
    others = {key: list(range(COUNT)) for key in KEYS if key != STUCK}
    eventually(lambda: others.items() <= group.seen.by_key().items(), within=20)
    eventually(lambda: len(shipping.tries) >= TRIES, within=20)
    assert set(group.seen.numbers(STUCK)) == {0}, "nothing of it before its first message is done"
    shipping.passes.set()
    eventually(lambda: group.seen.numbers(STUCK)[-1:] == [COUNT - 1], within=20)
    assert shipping.tries == list(range(1, len(shipping.tries) + 1))
    verdict = judged_by_key(KEYS, results, group.seen)
    assert verdict.ok, verdict


def test_a_long_wait_is_no_sleep(producer, topic, start_member):
    """With sleeping retries the only thread would be gone for LONG."""
    shipping = Shipping()
    _, seen = start_member(made("plain", shipping, LONG), order="key", concurrency=1)
    send_numbers(producer, topic, [STUCK], 1)
    eventually(lambda: shipping.tries)
    send_numbers(producer, topic, KEYS, COUNT, first=1)
    others = {key: list(range(1, COUNT + 1)) for key in KEYS if key != STUCK}
    eventually(lambda: others.items() <= seen.by_key().items())
    assert shipping.calls[1] != STUCK, "others were called while it waited"
    assert set(seen.numbers(STUCK)) == {0}


def test_by_queue_the_other_queues_go_on(producer, topic, start_member):
    shipping = Shipping()
    _, seen = start_member(made("plain", shipping, LONG), concurrency=1)
    results = send_numbers(producer, topic, [STUCK], 1)
    eventually(lambda: shipping.tries)
    later = send_numbers(producer, topic, KEYS, COUNT, first=1)
    blocked = results[0].queue
    passed = [r for r in later if r.queue != blocked]
    eventually(lambda: len(seen.deliveries) >= 1 + len(passed))
    assert shipping.calls[1] != STUCK, "others were called while it waited"
    assert {d.number for d in seen.deliveries if d.queue_id == blocked.queue_id} == {0}
