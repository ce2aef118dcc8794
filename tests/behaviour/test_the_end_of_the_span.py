"""A queue is consumed only so far ahead of its lowest unfinished message; then it waits for it."""

import threading

import pytest

from orderly import Ack, Suspend
from orderly.ordering.explain import Why
from tests.support.consuming import judged_by_key, send_numbers
from tests.support.waiting import eventually

STUCK, KEYS = "stuck", ["stuck", "a", "b", "c"]
SPAN, PULL = 40, 8  # messages


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


def test_the_queue_waits_there_says_so_and_goes_on_afterwards(producer, topic, start_group, caplog):
    repaired = threading.Event()

    def act(messages, context):
        return Suspend(0.1) if context.key == STUCK and not repaired.is_set() else Ack()

    settings = {"max_span": SPAN, "pull_batch": PULL, "order": "key"}
    group = start_group(act, queues=1, **settings)
    results = send_numbers(producer, topic, KEYS, 50)

    def waiting():
        told = [e for c in group.consumers for e in c.explain()]
        return next((e for e in told if e.why is Why.SPAN_END), None)

    told = eventually(waiting, within=20)
    assert SPAN < told.span <= SPAN + PULL
    assert (told.key, told.offset) == (STUCK, 0)

    def warnings():
        return [r.message for r in caplog.records if "queue.span_reached" in r.message]

    (warning,) = eventually(warnings, within=20)
    assert "offset=0" in warning
    assert f"key={STUCK}" in warning.replace("'", "")
    furthest = max(d.offset for d in group.seen.deliveries)
    assert furthest < SPAN + PULL
    repaired.set()
    eventually(lambda: all(group.seen.numbers(key)[-1:] == [49] for key in KEYS), within=20)
    eventually(lambda: waiting() is None)
    assert warnings() == [warning]
    verdict = judged_by_key(KEYS, results, group.seen)
    assert verdict.ok, verdict
    assert verdict.duplicates == group.seen.numbers(STUCK).count(0) - 1
