"""Where a message cannot be parked its key waits, an event says why, and it is parked later."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from orderly import Ack, Park, ParkLimits
from orderly.errors import BrokerError, RequestTimeout
from tests.support.consuming import send_numbers
from tests.support.topics import ParkTopic
from tests.support.waiting import await_visible, eventually

BAD, GOOD = "bad", "good"


def park_all_but_the_good_ones(messages, context):
    return Ack() if context.key == GOOD else Park("no such account")


@pytest.fixture
def one_queue(orderly_topic, start_member, client, group):
    """A member that parks, on a topic with one queue; returns (consumer, seen, topic, parks)."""

    def start(act=park_all_but_the_good_ones, **settings):
        topic = orderly_topic(queues=1)
        longest = {} if settings.get("order") == "queue" else {"max_suspend": 0.2}
        consumer, seen = start_member(act, suspend=0.05, patient=True, **longest, **settings)
        consumer.subscribe(topic)
        eventually(lambda: any(q.topic == topic for q in consumer.assignment), within=20)
        return consumer, seen, topic, ParkTopic(client, group, topic)

    return start


class Failing:
    """Lets sends of one member to a park topic fail: before, or after they are stored."""

    def __init__(self, consumer, monkeypatch, *, stored):
        self.times = 0
        brokers = consumer._client.brokers
        send_now = brokers.send_now

        def failing(queue, command):
            if not queue.topic.startswith("orderly-park-") or self.times == 0:
                return send_now(queue, command)
            self.times -= 1
            if stored:
                send_now(queue, command)
                raise RequestTimeout("made by the test: no answer")
            raise BrokerError("made by the test: not writable", code=16)

        monkeypatch.setattr(brokers, "send_now", failing)


@pytest.mark.parametrize("stored", [False, True], ids=["refused", "without an answer"])
def test_a_park_topic_that_does_not_take_it(stored, producer, one_queue, monkeypatch):
    consumer, seen, topic, parks = one_queue(order="key")
    failing = Failing(consumer, monkeypatch, stored=stored)
    failing.times = 3
    with capture_logs() as logs:
        bad = send_numbers(producer, topic, [BAD], 3)
        send_numbers(producer, topic, [GOOD], 3)
        queue, offsets = bad[0].queue, [s.queue_offset for s in bad]
        eventually(lambda: sorted(set(parks.parked(queue, BAD))) == offsets)
        eventually(lambda: seen.numbers(GOOD) == [0, 1, 2])
    assert len([e for e in logs if e["event"] == "park.failed"]) == 3
    assert set(seen.numbers(BAD)) == {0}
    eventually(lambda: consumer.parked()[queue][0].messages == 3)


def test_a_record_that_cannot_be_written(producer, one_queue, monkeypatch, client, group):
    consumer, _, topic, parks = one_queue(order="key", commit_interval=0.2)
    brokers = consumer._client.brokers
    send_now, committed, unfinished, parked = brokers.send_now, [], [], []

    def failing(queue, command):
        if queue.topic.startswith("orderly-state-") and len(committed) < 3:
            source = replace(queue, topic=topic)
            committed.append(client.brokers.query_offset(group, source) or 0)
            unfinished.extend(e.offset for e in consumer.explain() if e.queue == source)
            parked.append(consumer.parked())
            raise RequestTimeout("made by the test")
        return send_now(queue, command)

    monkeypatch.setattr(brokers, "send_now", failing)
    bad = send_numbers(producer, topic, [BAD], 2)
    queue = bad[0].queue
    eventually(lambda: client.brokers.query_offset(group, queue) == 2)
    assert committed == unfinished == [0, 0, 0], "nothing counts before it is on record"
    assert parked == [{}, {}, {}], "and no key is said to be parked"
    await_visible(client)
    assert sorted(set(parks.parked(queue, BAD))) == [0, 1]
    assert [(key.key, key.messages) for key in consumer.parked()[queue]] == [(BAD, 2)]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (ParkLimits(keys=1), "1 keys"),
        (ParkLimits(messages=1), "1 messages"),
        (ParkLimits(size=300), "bytes"),
    ],
    ids=["keys", "messages", "bytes"],
)
def test_at_a_limit_the_next_key_waits(limits, why, producer, one_queue):
    consumer, seen, topic, parks = one_queue(order="key", parking=limits)
    with capture_logs() as logs:
        stored = send_numbers(producer, topic, ["a"], 1)
        queue = stored[0].queue
        eventually(lambda: consumer.parked().get(queue))  # a moment after it is stored
        stored += send_numbers(producer, topic, ["b", GOOD], 1)
        eventually(lambda: "park.refused" in [e["event"] for e in logs])
        eventually(lambda: seen.numbers(GOOD) == [0])
        eventually(lambda: len(seen.numbers("b")) >= 3)
    refused = [e for e in logs if e["event"] == "park.refused"]
    assert {e["key"] for e in refused} == {"b"}
    assert why in refused[0]["why"]
    assert parks.parked(queue, "b") == []
    assert parks.carried_out(queue, "drop", "a").settled == 1
    eventually(lambda: parks.parked(queue, "b") == [stored[1].queue_offset])


def test_after_a_bad_deploy_not_everything_is_parked(producer, one_queue):
    """Five keys may be parked in any case; beyond, half of those seen."""
    consumer, seen, topic, _ = one_queue(order="key")
    keys = [f"k{i}" for i in range(20)]
    with capture_logs() as logs:
        stored = send_numbers(producer, topic, keys, 1)
        eventually(lambda: len({d.key for d in seen.deliveries}) == 20)
        eventually(lambda: len([e for e in logs if e["event"] == "park.refused"]) > 20)
    (parked,) = consumer.parked().values()
    assert 5 <= len(parked) <= 10
    assert "the handler is at fault" in next(e["why"] for e in logs if e["event"] == "park.refused")
    assert {s.queue for s in stored} == set(consumer.parked())


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"order": "queue"}, None),
        ({"order": "key", "key": lambda message: None}, "None"),
        ({"order": "key", "key": lambda message: (message.sharding_key,)}, "tuple"),
    ],
    ids=["by queue", "without a key", "by a tuple"],
)
def test_where_there_is_no_key_to_park_the_message_blocks(settings, key, producer, one_queue):
    _, seen, topic, _ = one_queue(**settings)
    with capture_logs() as logs:
        send_numbers(producer, topic, [BAD], 2)
        refused, *_ = eventually(lambda: [e for e in logs if e["event"] == "park.refused"])
    longest = 30.0 if settings["order"] == "queue" else 0.2
    assert (refused["log_level"], refused["seconds"]) == ("error", longest)
    assert ("order='key'" if key is None else key) in refused["why"]
    assert set(seen.numbers(BAD)) == {0}
