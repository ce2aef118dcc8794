"""`orderly offsets` on a real broker: what it shows is true, and what it sets is consumed from."""

import json
import time
from datetime import UTC, datetime

import pytest

from orderly import ConsumerConfig, Message, OrderlyConsumer
from orderly.client.broker import PullQuery
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.consuming import Recorder, send_numbers
from tests.support.waiting import eventually

PER_QUEUE = 6


@pytest.fixture
def topic(orderly_topic, producer, client):
    """A topic of two queues with PER_QUEUE messages each, visible."""
    topic = orderly_topic(queues=2)
    send_numbers(producer, topic, ["k0", "k1"], PER_QUEUE)  # these two keys have a queue each
    eventually(lambda: all(client.brokers.max_offset(queue(topic, n)) == PER_QUEUE for n in (0, 1)))
    return topic


@pytest.fixture
def known(client, group, topic):
    """Make the broker know the group, with 5 committed in queue 0 and nothing in queue 1.

    Returns what it says that is: in place of nothing brokers before 5.0 say 0.
    """
    everything = Subscription.from_expression(topic, "*", 1)
    client.brokers.pull_now(PullQuery(group, queue(topic, 0), 0, 1, everything, suspend=0))
    client.brokers.update_offset(group, queue(topic, 0), 5)
    return committed(client, group, topic)


def queue(topic, number):
    return MessageQueue(topic, "broker-a", number)


def committed(client, group, topic):
    return [client.brokers.query_offset(group, queue(topic, number)) for number in (0, 1)]


def iso(seconds):
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.mark.usefixtures("known")
def test_show_tells_never_committed_from_zero(orderly, group, topic):
    code, out, err = orderly("offsets", "show", group, "-t", topic, "-o", "json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["queues"]
    assert [(r["queue"], r["min"], r["committed"], r["max"]) for r in rows] == [
        (0, 0, 5, PER_QUEUE),
        (1, 0, None, PER_QUEUE),
    ]
    table = orderly("offsets", "show", group, "-t", topic)[1].splitlines()
    assert table[2].split()[-3:] == ["0", "-", str(PER_QUEUE)]


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [PER_QUEUE, PER_QUEUE]),
        (["--to-offset", "3", "--queue", "broker-a/1"], [5, 3]),
        (["--to-time", "2001-01-01T00:00:00Z"], [0, 0]),
    ],
)
def test_reset_with_nobody_online(orderly, client, group, topic, known, target, after):
    reset = ["offsets", "reset", group, topic, *target]
    code, out, _ = orderly(*reset, "--dry-run", "-o", "json")
    assert code == 0
    planned = json.loads(out)
    assert (planned["dry_run"], planned["clients"]) == (True, [])
    assert committed(client, group, topic) == known, "a dry run changes nothing"
    code, out, err = orderly(*reset, "--yes")
    assert code == 0, err
    assert committed(client, group, topic) == after
    shown = [int(line.split()[-1]) for line in out.splitlines()[1:]]
    assert shown == [row["after"] for row in planned["queues"]]


@pytest.mark.usefixtures("known")
def test_reset_to_a_time_between_two_messages(orderly, client, producer, group, topic):
    time.sleep(0.05)  # the broker searches by whole milliseconds
    moment = time.time()
    sent = producer.send(Message(topic, b"1", sharding_key="later"))
    eventually(lambda: client.brokers.max_offset(sent.queue) == PER_QUEUE + 1)
    args = ["offsets", "reset", group, topic, "--to-time", iso(moment), "--yes"]
    assert orderly(*args)[0] == 0
    assert committed(client, group, topic) == [PER_QUEUE, PER_QUEUE]


@pytest.mark.parametrize("offset", [PER_QUEUE + 1, 1000])
def test_an_offset_the_queue_does_not_have_is_refused(orderly, client, group, topic, known, offset):
    target = ["--to-offset", str(offset), "--queue", "broker-a/1", "--yes"]
    code, out, err = orderly("offsets", "reset", group, topic, *target)
    assert (code, out) == (3, "")
    assert f"0 to {PER_QUEUE}" in err
    assert committed(client, group, topic) == known


def test_a_group_nobody_knows_is_not_created(orderly, client, group, topic):
    args = ["offsets", "reset", group, topic, "--to-earliest", "--yes"]
    code, _, err = orderly(*args)
    assert code == 3
    assert "unknown" in err
    assert group not in client.admin.groups()


def test_without_a_terminal_nothing_is_assumed(orderly, client, group, topic, known):
    code, _, err = orderly("offsets", "reset", group, topic, "--to-latest")
    assert code == 3
    assert "--yes" in err
    assert committed(client, group, topic) == known


def test_a_running_consumer_starts_again_from_the_first_message(
    orderly, orderly_namesrv, orderly_topic, producer, client, group
):
    topic = orderly_topic(queues=2)
    keys = [f"key-{n}" for n in range(4)]
    sent = [result.queue for result in send_numbers(producer, topic, keys, 10)]
    recorder = Recorder()
    config = ConsumerConfig(consume_from="first")
    consumer = OrderlyConsumer(group, recorder, namesrv=orderly_namesrv, config=config)
    with consumer.subscribe(topic, "*"):
        eventually(lambda: len(recorder.deliveries) == 40, within=20)
        used = set(sent)
        eventually(
            lambda: sum(client.brokers.query_offset(group, q) or 0 for q in used) == 40, within=20
        )
        args = ["offsets", "reset", group, topic, "--to-earliest", "--yes"]
        code, _, err = orderly(*args)
        assert code == 0, err
        assert "1 member online" in err
        eventually(lambda: len(recorder.deliveries) >= 80, within=45, every=0.05)
        eventually(
            lambda: sum(client.brokers.query_offset(group, q) or 0 for q in used) == 40, within=20
        )
    for key in keys:
        assert recorder.numbers(key) == [*range(10), *range(10)]
