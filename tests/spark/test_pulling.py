"""Ranges are read whole from a real broker, also from one that dies meanwhile."""

import threading

import pytest

from orderly import Message
from orderly.errors import DataLost
from orderly.spark.offsets import QueueRange
from orderly.spark.options import ScanOptions
from orderly.spark.reading import read_range
from tests.support.waiting import await_visible, patient_client, patient_producer

COUNT = 6_000
SCAN = ScanOptions(("queue_offset", "sharding_key", "seq", "tag", "body"), seq_property="n")


@pytest.fixture(scope="module")
def client(orderly_namesrv):
    with patient_client(orderly_namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def queue(client, orderly_topic):
    topic = orderly_topic(queues=1)
    with patient_producer(client=client) as producer:
        for n in range(COUNT):
            message = Message(
                topic,
                b"%d" % n,
                sharding_key=f"key-{n % 7}",
                tags="ab"[n % 2],
                properties={"n": str(n)},
            )
            producer.submit(message)
        assert producer.flush(60)
    await_visible(client)
    (queue,) = client.routes.get(topic).read_queues()
    return queue


def rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def no_loss(loss):
    raise AssertionError(loss)


def test_every_message_comes_once_and_in_order(client, queue):
    # The broker gives 32 at a time, whatever is asked for: most guesses are wrong at first.
    found = rows(read_range(client, SCAN, QueueRange(queue, 0, COUNT), no_loss))
    assert [row["queue_offset"] for row in found] == list(range(COUNT))
    assert [row["seq"] for row in found] == list(range(COUNT))
    assert [row["body"] for row in found] == [b"%d" % n for n in range(COUNT)]
    assert {row["sharding_key"] for row in found} == {f"key-{n}" for n in range(7)}


def test_a_part_with_one_tag(client, queue):
    scan = ScanOptions(("queue_offset",), tags="b")
    found = rows(read_range(client, scan, QueueRange(queue, 101, 1_001), no_loss))
    assert [row["queue_offset"] for row in found] == list(range(101, 1_001, 2))


def test_nothing_but_the_groups_name_is_left_at_the_broker(client, queue):
    list(read_range(client, SCAN, QueueRange(queue, 0, 100), no_loss))
    assert client.brokers.query_offset(SCAN.group_prefix, queue) is None
    assert client.brokers.consumer_ids(SCAN.group_prefix, queue.topic) == ()


def test_what_lies_beyond_the_end_is_lost(client, queue):
    with pytest.raises(DataLost, match=rf"\[{COUNT}, {COUNT + 5}\)"):
        list(read_range(client, SCAN, QueueRange(queue, COUNT - 5, COUNT + 5), no_loss))


def test_a_broker_that_dies_and_comes_back_costs_no_message(client, queue, orderly_broker):
    scan = ScanOptions(("queue_offset",), pull_batch=16, pull_depth=4, batch_bytes=10_000)
    batches = read_range(client, scan, QueueRange(queue, 0, COUNT), no_loss)
    found = rows([next(batches)])
    orderly_broker.kill_broker()
    restart = threading.Thread(target=orderly_broker.restart_broker)
    restart.start()
    try:
        found += rows(batches)
    finally:
        restart.join()
    assert [row["queue_offset"] for row in found] == list(range(COUNT))
