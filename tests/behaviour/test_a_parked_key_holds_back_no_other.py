"""A handler that answers Park sets the message's key aside, in order; all others go on."""

import os

import pytest
from structlog.testing import capture_logs

from orderly import Ack, ConsumerConfig, ConsumeResult, Park
from orderly.protocol.park_record import Parked
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually, patient_consumer
from tests.support.workers import park_unless_replayed

KEYS = [f"k{i}" for i in range(8)]
BAD = "k3"
COUNT = 10


def park_the_bad_one(messages, context):
    return Park("no such account") if context.key == BAD else Ack()


async def park_the_bad_one_async(messages, context):
    return park_the_bad_one(messages, context)


def committed(client, group, stored):
    """Whether everything that was sent counts as done at the broker."""
    ends = {}
    for result in stored:
        ends[result.queue] = max(ends.get(result.queue, 0), result.queue_offset + 1)
    return all(client.brokers.query_offset(group, q) == end for q, end in ends.items())


@pytest.mark.parametrize("act", [park_the_bad_one, park_the_bad_one_async], ids=["thread", "async"])
def test_all_of_the_key_waits_in_order_and_the_offset_passes_it(
    act, producer, topic, start_group, client, group, parks
):
    members = start_group(act, order="key", commit_interval=0.3, patient=True)
    stored = send_numbers(producer, topic, KEYS, COUNT)
    of_bad = [s for place, s in enumerate(stored) if KEYS[place % len(KEYS)] == BAD]
    queue, offsets = of_bad[0].queue, [s.queue_offset for s in of_bad]
    eventually(lambda: committed(client, group, stored), within=20)
    assert members.seen.numbers(BAD) == [0], "nothing of it runs once it is parked"
    await_visible(client)
    assert parks.parked(queue, BAD) == offsets
    assert {k: n for k, n in members.seen.by_key().items() if k != BAD} == {
        key: list(range(COUNT)) for key in KEYS if key != BAD
    }
    first, second = [r for r in parks.records(queue) if isinstance(r, Parked)][:2]
    assert (first.details.reason, first.details.attempts) == ("no such account", 1)
    assert second.details.attempts == 0
    assert (first.original.body, first.original.sharding_key) == (b"0", BAD)


def test_it_is_told_by_an_event_by_explain_and_by_health(producer, topic, start_group, parks):
    with capture_logs() as logs:
        members = start_group(park_the_bad_one, order="key", patient=True)
        stored = send_numbers(producer, topic, [BAD], 3)
        queue = stored[0].queue
        eventually(lambda: len(parks.parked(queue, BAD)) == 3)
    (event,) = [e for e in logs if e["event"] == "key.parked"]
    told = {name: event[name] for name in ("key", "offset", "queue_id", "reason", "attempts")}
    assert told == {
        "key": BAD,
        "offset": stored[0].queue_offset,
        "queue_id": queue.queue_id,
        "reason": "no such account",
        "attempts": 1,
    }
    (owner,) = [c for c in members.consumers if queue in c.assignment]
    eventually(lambda: owner.parked()[queue][0].messages == 3)
    assert [(p.key, p.next) for p in owner.parked()[queue]] == [(BAD, stored[0].queue_offset)]
    (key,) = owner.explain_keys()
    assert (key.key, key.why.name, key.parked) == (BAD, "PARKED", 3)
    assert {e.queue: e.keys_parked for e in owner.explain()}[queue] == 1
    assert {q.queue: q.parked_keys for q in owner.health().queues}[queue] == 1


def test_what_a_manual_commit_has_in_hand_is_parked_with_it(
    producer, topic, start_group, parks, client, group
):
    def keep_two_then_park(messages, context):
        context.auto_commit = False
        return Park("third") if int(messages[0].body) == 2 else ConsumeResult.SUCCESS

    members = start_group(keep_two_then_park, order="key", commit_interval=0.3, patient=True)
    stored = send_numbers(producer, topic, [BAD], 4)
    eventually(lambda: committed(client, group, stored))
    assert members.seen.numbers(BAD) == [0, 1, 2]
    await_visible(client)
    assert parks.parked(stored[0].queue, BAD) == [s.queue_offset for s in stored]


@pytest.mark.parametrize("answer", [ConsumeResult.SUSPEND, Ack()], ids=str)
def test_what_is_done_of_a_batch_is_not_parked(
    answer, producer, topic, start_group, parks, client, group
):
    def do_the_first(messages, context):
        context.done(messages[0])
        if len(messages) > 1:
            context.park(messages[1], "second")
        return answer if len(messages) > 1 else Ack()

    stored = send_numbers(producer, topic, [BAD], 5)
    start_group(do_the_first, order="key", batch_size=5, commit_interval=0.3)
    eventually(lambda: committed(client, group, stored))
    await_visible(client)
    assert parks.parked(stored[0].queue, BAD) == [s.queue_offset for s in stored[1:]]


def test_worker_processes_park_and_release_too(
    producer, topic, parks, group, orderly_namesrv, closing
):
    config = ConsumerConfig(order="key", executor="process", concurrency=1, consume_from="first")
    consumer = patient_consumer(group, park_unless_replayed, namesrv=orderly_namesrv, config=config)
    closing(consumer.subscribe(topic))
    stored = send_numbers(producer, topic, [BAD], 3)
    queue, offsets = stored[0].queue, [s.queue_offset for s in stored]
    eventually(lambda: parks.parked(queue, BAD) == offsets, within=20)
    first = next(r for r in parks.records(queue) if isinstance(r, Parked))
    assert first.details.reason.startswith("in process ")
    assert str(os.getpid()) not in first.details.reason
    assert parks.carried_out(queue, "release", BAD).settled == 3
