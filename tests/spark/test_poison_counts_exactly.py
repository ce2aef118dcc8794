"""Promise: what a group parked and gave up is counted exactly, and nothing is disturbed."""

import json

import pytest

from orderly import Ack, ConsumerConfig, DeadLetter, Message, OrderlyConsumer, OrderlyProducer, Park
from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.parked import ParkedMessages
from orderly.ordering.state.topic import park_topic
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.poison.run import PoisonSettings, run
from tests.support.consuming import unique
from tests.support.pulling import pulled
from tests.support.visible import await_visible
from tests.support.waiting import eventually

KEYS, EACH = 12, 5
REASONS = {"k0": "no such account", "k1": "no such account", "k2": "amount is missing"}
DEAD = {("k3", 0), ("k4", 1)}  # the message with that number


def handle(messages, _):
    (message,) = messages
    if message.sharding_key in REASONS:
        return Park(REASONS[message.sharding_key])
    if (message.sharding_key, int(message.body)) in DEAD:
        return DeadLetter("cannot be shipped")
    return Ack()


@pytest.fixture(scope="module")
def client(orderly_namesrv):
    with Client(namesrv=orderly_namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def failed(orderly_namesrv, orderly_topic, client):
    """A group that handled 12 keys, parked three, dropped one of these and buried two messages."""
    topic, group = orderly_topic(queues=4), unique("shipping")
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        for number in range(EACH):
            sent = [
                producer.submit(Message(topic, b"%d" % number, f"k{key}", "made"))
                for key in range(KEYS)
            ]
            for future in sent:
                future.result()
    config = ConsumerConfig(order="key", consume_from="first")
    consumer = OrderlyConsumer(group, handle, namesrv=orderly_namesrv, config=config)
    with consumer.subscribe(topic):
        parked = ParkedMessages(client, group)
        eventually(lambda: counts(parked) == dict.fromkeys(REASONS, EACH), within=60)
        parked.drop("k1")
    eventually(lambda: done(client, group, topic))
    write_nonsense(orderly_namesrv, park_topic(group, topic))
    await_visible(client)
    return topic, group


def counts(parked):
    try:
        return {it.key: it.messages for it in parked.list().keys}
    except OrderlyError:
        return {}


def done(client, group, topic):
    return all(
        it.consumer_offset == it.broker_offset
        for it in client.admin.consume_stats(group, topic).values()
    )


def write_nonsense(namesrv, topic):
    with OrderlyProducer(namesrv=namesrv) as producer:
        producer.send(Message(topic, b"nonsense", "any"))


def test_clusters_keys_and_the_replay_list(failed, orderly_namesrv, client, spark, tmp_path):
    topic, group = failed
    before = client.admin.consume_stats(group, topic)
    with Output(tmp_path / "poison") as output:
        found = run(spark, PoisonSettings(group, {"namesrv": orderly_namesrv}), output)

    assert {(it.kind, it.messages, it.behind, it.keys, it.waiting) for it in found.clusters} == {
        ("parked", 2, 8, 2, 5),  # no such account: k0 waits, k1 was dropped
        ("parked", 1, 4, 1, 5),
        ("dead", 2, 0, 2, 0),
    }
    by_messages = {it.cause: it.messages for it in found.clusters}
    assert any("no such account" in cause and n == 2 for cause, n in by_messages.items())
    assert by_messages[f"dead letters of {topic}, tag made"] == 2

    keys = {it.key: it for it in found.keys}
    assert {key: (it.dead, it.later, it.went_on) for key, it in keys.items() if it.dead} == {
        "k3": (1, 4, 4),
        "k4": (1, 3, 3),
    }
    assert {key: it.waiting for key, it in keys.items() if it.waiting} == {"k0": EACH, "k2": EACH}
    assert found.verdict is Verdict.CRITICAL, "two keys went on"
    assert (found.totals.failed, found.totals.unreadable, found.totals.unplaced) == (5, 1, 0)
    assert sum(n for points in found.trend.values() for _, n in points) == 5

    check_replay_list(spark, tmp_path, client, topic)
    check_script((tmp_path / "poison" / "commands.sh").read_text(), topic, group)
    assert json.loads((tmp_path / "poison" / "result.json").read_text())["figures"]["failed"] == 5
    assert client.admin.consume_stats(group, topic) == before
    assert client.admin.consumer_connections(group) is None, "it joined nothing"


def check_replay_list(spark, tmp_path, client, topic):
    path = str(tmp_path / "poison" / "replay_list")
    rows = spark.read.parquet(path).orderBy("key", "number").collect()
    places = {}
    for row in rows:
        places.setdefault(row.key, []).append(row.queue_offset)
    assert {key: len(offsets) for key, offsets in places.items()} == {
        "k0": 5,
        "k2": 5,
        "k3": 1,
        "k4": 1,
    }
    assert all(offsets == sorted(set(offsets)) for offsets in places.values())

    originals = {(it.queue.queue_id, it.queue_offset): it for it in pulled(client, topic)}
    listed = [originals[row.queue_id, row.queue_offset] for row in rows]
    bodies = sorted((it.sharding_key, int(it.body)) for it in listed)
    waiting = [(key, number) for key in ("k0", "k2") for number in range(EACH)]
    assert bodies == sorted(waiting + list(DEAD)), "the list names the originals"


def check_script(text, topic, group):
    released = [line.split() for line in text.splitlines() if line.startswith("orderly parked")]
    assert {line[-1] for line in released} == {"k0", "k2"}
    assert all(line[:5] == ["orderly", "parked", "release", "--topic", topic] for line in released)
    (letters,) = [line for line in text.splitlines() if line.startswith("orderly dlq")]
    assert letters.endswith(group)
    assert letters.count(",") == 1
