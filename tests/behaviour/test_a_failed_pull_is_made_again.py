"""A pull that fails, or cannot be sent, is made again for the same offset, whatever went wrong.

Nothing is passed over and no queue stands still; bodies that a key did not keep are no exception.
"""

import threading
from functools import partialmethod

import pytest

from orderly import ConsumeResult
from orderly.client.broker import BrokerCalls
from orderly.errors import (
    BrokerBusy,
    ConnectFailed,
    ProtocolError,
    ReplyTooLarge,
    RequestTimeout,
    TopicNotFound,
)
from tests.support.consuming import judged_by_key, send_numbers
from tests.support.waiting import eventually

KEYS = ["hot", "k1"]
COUNT = 120  # messages of each: more than a key keeps with their bodies while it waits


class FirstTries:
    """Has the first pull of each queue at each offset fail; counts those that did."""

    def __init__(self, fail):
        self._fail, self._pull = fail, BrokerCalls.pull
        self._seen, self._lock = set(), threading.Lock()

    def __call__(self, brokers, query, on_result, **how):
        place = brokers, query.queue, query.offset
        with self._lock:
            first = place not in self._seen
            self._seen.add(place)
        if first:
            return self._fail(self._pull, brokers, query, on_result, **how)
        return self._pull(brokers, query, on_result, **how)

    @property
    def count(self):
        return len(self._seen)


def answered(reply):
    """The broker answers, and this comes instead."""

    def fail(pull, brokers, query, on_result, **how):
        return pull(brokers, query, lambda _: on_result(reply), **how)

    return fail


def raising(error):
    """It cannot be sent."""

    def fail(pull, brokers, query, on_result, **how):
        raise error

    return fail


def without_a_connection(pull, brokers, query, on_result, *, may_connect=True):
    """There is no connection, so that the thread which reads replies must not send it."""
    return may_connect and pull(brokers, query, on_result, may_connect=True)


FAILURES = {
    "no answer": answered(RequestTimeout("made by the test")),
    "flow control": answered(BrokerBusy("made by the test", code=2)),
    "unreadable": answered(ProtocolError("made by the test")),
    "an unknown topic": answered(TopicNotFound("made by the test", code=17)),
    "too large": answered(ReplyTooLarge("made by the test", size=1000)),
    "a defect in reading it": answered("nonsense"),
    "nobody there": raising(ConnectFailed("made by the test")),
    "a defect in sending it": raising(RuntimeError("made by the test")),
    "no connection": without_a_connection,
}


@pytest.fixture
def go_on(closing):
    """Asks for `closing` so that it is set before the members are closed."""
    go_on = threading.Event()
    yield go_on
    go_on.set()


@pytest.mark.parametrize("order", ["queue", "key"])
@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
def test_every_message_comes_once_and_in_order(
    fail, order, go_on, monkeypatch, producer, topic, start_group
):
    tries = FirstTries(fail)
    monkeypatch.setattr(BrokerCalls, "pull", partialmethod(tries))

    def act(messages, context):
        assert messages[0].sharding_key != "hot" or go_on.wait(60)
        return ConsumeResult.SUCCESS

    group = start_group(act, order=order, pull_retry=0.02, concurrency=8)
    results = send_numbers(producer, topic, KEYS, COUNT)
    others = KEYS[1:] if order == "key" else []
    eventually(lambda: all(len(group.seen.numbers(key)) == COUNT for key in others), within=20)
    go_on.set()
    eventually(lambda: len(group.seen.deliveries) >= len(results), within=20)
    verdict = judged_by_key(KEYS, results, group.seen)
    assert verdict.ok, verdict
    assert verdict.duplicates == 0
    assert tries.count > len(KEYS)
