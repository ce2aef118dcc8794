"""Pause, resume and seek, queue by queue: what is steered obeys, the others do not notice."""

import threading
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from orderly import ConsumerConfig, ConsumeResult
from orderly.consumer.hooks import ConsumerHooks
from orderly.errors import ConfigError, LifecycleError
from orderly.model import MessageQueue
from orderly.ordering.explain import Why
from tests.support.consuming import Recorder, send_numbers
from tests.support.waiting import await_visible, eventually, patient_consumer

KEYS = [f"k{i}" for i in range(8)]


def why(consumer, queue):
    return next(e.why for e in consumer.explain() if e.queue == queue)


def owner_of(queue, consumers):
    (owner,) = [consumer for consumer in consumers if queue in consumer.assignment]
    return owner


def keys_by_queue(results):
    """The keys of each queue, from the results of one message a key."""
    found = {}
    for key, result in zip(KEYS, results, strict=True):
        found.setdefault(result.queue, []).append(key)
    return found


def test_a_paused_queue_stands_still_until_it_is_resumed(producer, topic, start_group):
    group = start_group()
    keys = keys_by_queue(send_numbers(producer, topic, KEYS, 1))
    eventually(lambda: len(group.seen.deliveries) == 8, within=20)
    queue, *others = keys
    owner = owner_of(queue, group.consumers)
    owner.pause([queue])
    assert owner.paused == {queue}
    send_numbers(producer, topic, KEYS, 3, first=1)
    going_on = [key for other in others for key in keys[other]]
    eventually(lambda: all(3 in group.seen.numbers(key) for key in going_on), within=20)
    assert why(owner, queue) is Why.PAUSED
    assert all(group.seen.numbers(key) == [0] for key in keys[queue])
    owner.resume([queue])
    eventually(lambda: len(group.seen.deliveries) >= 32, within=20)
    assert group.seen.by_key() == {key: [0, 1, 2, 3] for key in KEYS}


def test_a_pause_of_all_outlasts_a_rebalance(producer, topic, start_member):
    first, seen = start_member()
    eventually(lambda: len(first.assignment) == 4, within=20)
    first.pause()
    second, seen_by_second = start_member()
    eventually(lambda: len(first.assignment) == len(second.assignment) == 2, within=20)
    second.close()
    send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: len(first.assignment) == 4, within=20)
    assert {e.why for e in first.explain()} == {Why.PAUSED}
    eventually(lambda: first.health().ready)
    assert not seen.deliveries
    first.resume()
    eventually(lambda: len(seen.deliveries) >= 24, within=20)
    assert first.paused == frozenset()
    assert seen.by_key() == {key: [0, 1, 2] for key in KEYS}
    assert not seen_by_second.deliveries


def test_a_handler_that_runs_at_the_pause_ends_and_counts(producer, topic, start_member):
    entered, leave = threading.Event(), threading.Event()

    def act(messages, context):
        entered.set()
        leave.wait(30)
        return ConsumeResult.SUCCESS

    consumer, seen = start_member(act)
    queue = send_numbers(producer, topic, ["k"], 3)[0].queue
    assert entered.wait(20)
    consumer.pause([queue])
    leave.set()
    eventually(lambda: why(consumer, queue) is Why.PAUSED, within=20)
    assert seen.numbers("k") == [0]
    consumer.resume()
    eventually(lambda: 2 in seen.numbers("k"), within=20)
    assert seen.numbers("k") == [0, 1, 2]


POSITIONS = {
    "an offset": (lambda _: 2, 2),
    "the minimum": (lambda _: 0, 0),
    "first": (lambda _: "first", 0),
    "last": (lambda _: "last", 6),
    "a time": (lambda moment: moment, 4),
    "a time as text": (lambda moment: moment.isoformat(), 4),
}


@pytest.mark.parametrize(("position", "first"), POSITIONS.values(), ids=POSITIONS)
def test_a_seek_goes_exactly_there(position, first, producer, topic, client, group, start_group):
    members = start_group()
    queue = send_numbers(producer, topic, ["k"], 4)[0].queue
    sent = time.time()
    eventually(lambda: time.time() > sent + 0.002)  # the broker counts in milliseconds
    moment = datetime.now(UTC)
    eventually(lambda: datetime.now(UTC).timestamp() > moment.timestamp() + 0.005)
    send_numbers(producer, topic, ["k"], 2, first=4)
    eventually(lambda: len(members.seen.deliveries) == 6, within=20)
    owner = owner_of(queue, members.consumers)
    assert owner.seek(queue, position(moment)) == first
    send_numbers(producer, topic, ["k"], 1, first=6)
    eventually(lambda: 6 in members.seen.numbers("k"), within=20)
    assert members.seen.numbers("k")[6:] == [*range(first, 7)]
    owner.close()
    assert client.brokers.query_offset(group, queue) == 7


def test_a_seek_or_a_pause_that_makes_no_sense_changes_nothing(producer, topic, start_group):
    members = start_group()
    queue = send_numbers(producer, topic, ["k"], 3)[0].queue
    eventually(lambda: len(members.seen.deliveries) == 3, within=20)
    owner = owner_of(queue, members.consumers)
    for offset in (-1, 4):
        with pytest.raises(ConfigError, match=f"offset {offset} .*holds 0 to 3"):
            owner.seek(queue, offset)
    with pytest.raises(ConfigError, match="'yesterday' must be"):
        owner.seek(queue, "yesterday")
    with pytest.raises(LifecycleError, match="does not hold"):
        owner.seek(MessageQueue(topic, "broker-a", 17), 0)
    with pytest.raises(ConfigError, match="MessageQueue"):
        owner.pause([topic])
    send_numbers(producer, topic, ["k"], 1, first=3)
    eventually(lambda: len(members.seen.deliveries) >= 4, within=20)
    assert members.seen.numbers("k") == [0, 1, 2, 3]


def test_a_hook_that_seeks_its_new_queues_is_not_called_in_circles(
    producer, topic, client, orderly_namesrv, group, closing
):
    send_numbers(producer, topic, KEYS, 4)
    await_visible(client)  # or "last" is where it begins anyway
    calls, seen = Counter(), Recorder()

    def begin_at_the_end(queues):
        for queue in queues:
            if queue.topic == topic:
                consumer.seek(queue, "last")
            calls[queue] += 1  # now: a message sent before the seek would be passed over

    config = ConsumerConfig(consume_from="first")
    hooks = ConsumerHooks(assigned=begin_at_the_end)
    consumer = patient_consumer(group, seen, namesrv=orderly_namesrv, config=config, hooks=hooks)
    closing(consumer.subscribe(topic))
    eventually(lambda: [calls[q] for q in consumer.assignment] == [2] * 4, within=20)
    send_numbers(producer, topic, KEYS, 1, first=4)
    eventually(lambda: all(4 in seen.numbers(key) for key in KEYS), within=20)
    assert seen.by_key() == {key: [4] for key in KEYS}
    assert {calls[queue] for queue in consumer.assignment} == {2}, "to seek, and where it wanted"
