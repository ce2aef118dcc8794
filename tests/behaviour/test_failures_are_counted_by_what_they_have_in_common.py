"""`orderly parked list --group-by` and `orderly dlq list --group-by`: how many failed alike."""

import json

import pytest

from orderly import Ack, DeadLetter, Park
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

REASONS = {"a": "no such account", "b": "no such account", "c": "amount is missing"}
COUNT = 3


def handle(_, context):
    if context.key in REASONS:
        return Park(REASONS[context.key])
    return DeadLetter("not wanted") if context.key == "dead" else Ack()


@pytest.fixture
def told(orderly):
    def told(*words):
        code, out, _ = orderly(*words, "-o", "json")
        return json.loads(out)["groups"] if code == 0 else []

    return told


def test_what_waits_is_counted_by_failure_and_what_is_dead_by_topic(
    producer, topic, group, start_group, parks, told
):
    start_group(handle, order="key", batch_size=1, commit_interval=0.2)
    send_numbers(producer, topic, [*REASONS, "dead", "good"], COUNT)

    def parked(by):
        found = told("parked", "list", group, "--group-by", by)
        return [(each[by], each["keys"], each["messages"]) for each in found]

    by_failure = [("no such account", 2, 2 * COUNT), ("amount is missing", 1, COUNT)]
    eventually(lambda: parked("fingerprint") == by_failure, within=60)
    by_queue = parked("queue")
    assert sum(keys for _, keys, _ in by_queue) == len(REASONS)
    assert all(queue.startswith(f"{topic}/broker-a/") for queue, _, _ in by_queue)

    def dead():
        found = told("dlq", "list", group, "--group-by", "topic")
        return [(each["topic"], each["keys"], each["messages"]) for each in found]

    eventually(lambda: dead() == [(topic, 1, COUNT)], within=60)
