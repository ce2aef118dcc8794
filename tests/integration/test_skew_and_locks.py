"""Skew and locks on a real broker: real flights, a Java member and one of ours, and no trace."""

import json
from collections import Counter

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from orderly.cli.demo.flights import load_events
from orderly.selectors import hash_mod, queues_of
from orderly.selectors.layout import parse_layout
from tests.support.java import ForeignMember
from tests.support.waiting import eventually, patient_client

FLIGHTS = 1500
QUEUES = 4


@pytest.fixture(scope="module")
def flights():
    """By aircraft and by airline: the events of the first days of 2013."""
    return load_events(FLIGHTS)[0]


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=QUEUES)


@pytest.fixture
def send(producer, client, topic):
    def send(keys):
        """Until all can be seen."""
        ends = {}
        for number, key in enumerate(keys):
            stored = producer.send(Message(topic, str(number).encode(), sharding_key=key))
            ends[stored.queue] = stored.queue_offset + 1
        for queue, end in ends.items():
            eventually(lambda: client.brokers.max_offset(queue) >= end)  # noqa: B023 - at once

    return send


@pytest.fixture
def skew(orderly, topic):
    def call(*args):
        code, out, _ = orderly("skew", topic, "-o", "json", *args)
        assert code == 0
        return json.loads(out)

    return call


def test_airlines_are_skewed_and_looking_leaves_no_trace(client, topic, send, skew, flights):
    airlines = [event.flight[:2] for event in flights]
    send(airlines)
    before = client.admin.groups(), client.admin.topics()
    found = skew()
    keys, exact = found["keys"], Counter(airlines)
    assert (keys["messages_read"], keys["without_key"], keys["different"]) == (
        FLIGHTS, 0, len(exact),
    )  # fmt: skip
    assert {each["key"]: each["messages"] for each in keys["top"]} == dict(exact.most_common(20))
    assert keys["in_several_queues"] == 0
    places = all_of(topic)
    loads = Counter(hash_mod(places, None, key).queue_id for key in airlines)
    stored = {queue["queue"]: queue["messages"] for queue in found["queues"]}
    assert stored == {number: loads[number] for number in range(QUEUES)}
    assert found["skew"]["top_share"] == pytest.approx(max(loads.values()) / FLIGHTS)
    assert (client.admin.groups(), client.admin.topics()) == before


def test_the_newest_messages_are_read(topic, send, skew, flights):
    tails = [event.tail for event in flights]
    send(tails)
    found = skew("-n", "200")
    assert (found["keys"]["messages_planned"], found["keys"]["messages_read"]) == (200, 200)
    assert {key["key"] for key in found["keys"]["top"]} <= set(tails[-400:]), "the latest"


def test_messages_without_a_key_are_counted_apart(send, skew):
    send([None] * 10)
    found = skew()
    assert (found["keys"]["messages_read"], found["keys"]["without_key"]) == (10, 10)
    assert found["keys"]["top"] == []


def test_locks_of_a_java_member_and_ours(
    java_command, orderly_namesrv, client, orderly, group, topic, send, flights
):
    send(event.tail for event in flights[:50])
    with ForeignMember(java_command, orderly_namesrv, group, topic) as theirs:
        with our_member(orderly_namesrv, group, topic):
            code, found = settled(
                orderly, group, lambda doc: doc["verdict"] == "OK" and len(owners(doc, topic)) == 2
            )
            assert (code, found["takes_locks"]) == (0, True)
            assert theirs.client_id in owners(found, topic)
            held = [queue for queue in found["queues"] if queue["topic"] == topic]
            assert len(held) == QUEUES
            assert all(queue["locked"] and len(queue["claimants"]) == 1 for queue in held)
            assert all(0 <= queue["lock_age_seconds"] < 60 for queue in held)
            assert found["silent_members"] == []
        settled(orderly, group, lambda doc: owners(doc, topic) == {theirs.client_id})
        theirs.kill()
        code, found = settled(orderly, group, lambda doc: doc["members"] == [])
        assert (code, found["verdict"]) == (0, "OK"), "nobody waits for what it may have left"
        assert {queue["free_within_seconds"] for queue in found["queues"]} == {60.0}


def test_asking_who_holds_a_lock_takes_none(client, orderly_namesrv, orderly, group, topic):
    client.groups.group_config(group, "broker-a")  # makes the group
    for queue in all_of(topic):
        client.brokers.update_offset(group, queue, 0)
    code, found = settled(orderly, group, lambda doc: len(doc["queues"]) == QUEUES)
    assert (code, {queue["why"] for queue in found["queues"]}) == (0, {None})
    with patient_client(orderly_namesrv) as other:
        taken = other.brokers.lock_queues(group, "broker-a", all_of(topic))
        assert taken == set(all_of(topic)), "they are free"
        other.brokers.unlock_queues(group, "broker-a", all_of(topic))


def our_member(namesrv, group, topic):
    consumer = OrderlyConsumer(
        group,
        lambda *_: ConsumeResult.SUCCESS,
        namesrv=namesrv,
        config=ConsumerConfig(consume_from="first", close_timeout=1.0),
    )
    consumer.subscribe(topic)
    return consumer


def all_of(topic):
    return queues_of(parse_layout(f"broker-a:{QUEUES}"), topic)


def owners(found, topic):
    return {queue["owner"] for queue in found["queues"] if queue["topic"] == topic}


def settled(orderly, group, condition):
    """Exit code and document of `orderly locks`, once it meets the condition."""

    def met():
        code, out, _ = orderly("locks", group, "-o", "json")
        found = json.loads(out) if out else None
        return (code, found) if found and condition(found) else None

    return eventually(met, 60, every=0.5)
