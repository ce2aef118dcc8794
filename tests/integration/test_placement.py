"""`orderly placement` on a real broker: who placed the keys, which lie in two queues."""

import json

import pytest

from orderly import Message
from orderly.selectors import KEYED, queues_of
from orderly.selectors.layout import parse_layout
from tests.support.waiting import eventually, patient_producer

QUEUES = 8
KEYS = [f"order-{number}" for number in range(60)]


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=QUEUES)


@pytest.fixture
def send(orderly_namesrv, client, topic):
    def send(name):
        """A message of each key, until all can be seen."""
        with patient_producer(orderly_namesrv, selector=KEYED[name].selector) as producer:
            stored = [producer.send(Message(topic, b"x", sharding_key=key)) for key in KEYS]
        for it in stored:
            eventually(lambda: client.brokers.max_offset(it.queue) > it.queue_offset)  # noqa: B023
        return stored

    return send


@pytest.fixture
def audit(orderly, topic):
    def call(*args):
        code, out, _ = orderly("placement", topic, "-o", "json", *args)
        return code, json.loads(out)

    return call


def test_other_producers_are_recognised_and_split_keys_are_told(client, topic, send, audit):
    before = client.admin.groups(), client.admin.topics()
    send("go_hash_mod")
    code, found = audit()
    assert (code, [each["selectors"] for each in found["placements"]]) == (0, [["go_hash_mod"]])
    send("hash_mod")
    code, found = audit()
    assert (code, found["messages_read"], found["keys"]) == (1, 2 * len(KEYS), len(KEYS))
    queues = queues_of(parse_layout(f"broker-a:{QUEUES}"), topic)
    ways = [KEYED[name].selector for name in ("go_hash_mod", "hash_mod")]
    moved = {key for key in KEYS if ways[0](queues, None, key) != ways[1](queues, None, key)}
    assert {key["key"] for key in found["split"]} == moved
    for key in found["split"]:
        assert [queue["selectors"] for queue in key["queues"]] == [["go_hash_mod"], ["hash_mod"]]
    assert (client.admin.groups(), client.admin.topics()) == before
