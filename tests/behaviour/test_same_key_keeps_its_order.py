"""Messages of one key arrive in the order in which they were sent, none lost, none twice."""

import itertools

from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

KEYS = [f"aircraft-{i}" for i in range(20)]


def test_before_and_after_the_start(producer, topic, start_group):
    send_numbers(producer, topic, KEYS, 10)
    group = start_group()
    send_numbers(producer, topic, KEYS, 10, first=10)
    eventually(lambda: len(group.seen.deliveries) >= 400, within=30)
    assert group.seen.by_key() == {key: list(range(20)) for key in KEYS}


def test_a_key_lives_in_one_queue(producer, topic, start_group):
    results = send_numbers(producer, topic, KEYS, 3)
    queues = {}
    for position, result in enumerate(results):
        queues.setdefault(KEYS[position % len(KEYS)], set()).add(result.queue)
    assert all(len(of_key) == 1 for of_key in queues.values())
    seen = start_group().seen
    eventually(lambda: len(seen.deliveries) >= 60, within=30)
    assert {(d.key, d.queue_id) for d in seen.deliveries} == {
        (key, queue.queue_id) for key, of_key in queues.items() for queue in of_key
    }


def test_messages_of_one_queue_are_never_handled_side_by_side(producer, topic, start_group):
    send_numbers(producer, topic, KEYS, 10)
    seen = start_group().seen
    eventually(lambda: len(seen.deliveries) >= 200, within=30)
    for queue_id in range(4):
        calls = sorted((d.started, d.ended) for d in seen.deliveries if d.queue_id == queue_id)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(calls))
