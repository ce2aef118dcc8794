"""A busy stream outlives what happens to its topic: each message in one batch, and none in two."""

import contextlib
import threading
from collections import Counter

import pytest

from orderly import Message
from orderly.spark.source import register
from orderly.testing import FakeBroker
from tests.support.topics import expire, fill
from tests.support.waiting import eventually, patient_client, patient_producer

SOON = 240  # seconds: Spark is slow on a busy machine


class BusyStream:
    """A query that takes few messages at a time; `batches` has what each brought."""

    def __init__(self, spark, home, **options):
        self.batches = []
        frame = spark.readStream.format("rocketmq").options(startingOffsets="earliest", **options)
        frame = frame.schema("queue_id int, queue_offset bigint").load()
        writer = frame.writeStream.foreachBatch(self._take)
        self._writer = writer.option("checkpointLocation", str(home))

    def start(self, **trigger):
        self.query = self._writer.trigger(**trigger).start()
        return self

    def rows(self):
        return [row for batch in list(self.batches) for row in batch]

    def _take(self, frame, _):
        self.batches.append([tuple(row) for row in frame.collect()])


@pytest.fixture
def stream(spark, tmp_path):
    register(spark)
    made = []

    def start(trigger=None, **options):
        made.append(BusyStream(spark, tmp_path / "checkpoint", **options))
        return made[-1].start(**(trigger or {"processingTime": "0 seconds"}))

    yield start
    for each in made:
        with contextlib.suppress(Exception):
            each.query.stop()


def send(namesrv, topic, count):
    """Send, and return (queue id, offset) of each."""
    with patient_producer(namesrv) as producer:
        futures = [
            producer.submit(Message(topic, b"%d" % n, sharding_key=f"key-{n % 97}"))
            for n in range(count)
        ]
        results = [each.result(60) for each in futures]
    return [(result.queue.queue_id, result.queue_offset) for result in results]


def test_a_topic_that_grows_and_a_broker_that_is_killed_under_a_busy_stream(
    stream, orderly_broker, orderly_namesrv, orderly_topic
):
    topic = orderly_topic(queues=4)
    sent = send(orderly_namesrv, topic, 3000)
    query = stream(namesrv=orderly_namesrv, topic=topic, maxOffsetsPerTrigger="400")
    eventually(lambda: len(query.batches) >= 2, within=SOON)

    with patient_client(orderly_namesrv) as client:
        (broker,) = client.routes.refresh(topic).brokers
        client.admin.grow_topic(topic, broker, 8, client.admin.topic_config(topic, broker))
        eventually(lambda: len(client.routes.refresh(topic).write_queues()) == 8)
    assert len(query.rows()) < 3000, "it was busy"
    sent += send(orderly_namesrv, topic, 3000)
    eventually(lambda: {queue for queue, _ in query.rows()} == set(range(8)), within=SOON)
    before = len(query.batches)
    assert len(query.rows()) < 6000, "it is busy"

    orderly_broker.kill_broker()
    restart = threading.Thread(target=orderly_broker.restart_broker)
    restart.start()
    try:
        eventually(lambda: len(query.rows()) >= 6000, within=SOON)
    finally:
        restart.join()
    assert query.query.isActive
    assert len(query.batches) > before
    assert Counter(query.rows()) == Counter(sent)


def test_messages_that_expire_before_a_busy_stream_reads_them_are_named(stream):
    with FakeBroker() as fake:
        fake.create_topic("orders", 1)
        fill(fake, "orders", {0: 1000})
        given = {"namesrv": fake.namesrv, "topic": "orders", "maxOffsetsPerTrigger": "50"}
        query = stream(**given)
        eventually(lambda: query.batches, within=SOON)
        expire(fake, "orders", 0, before=900)
        with pytest.raises(Exception, match=r"DataLost: \d+ messages .*orders/broker-a/0 \["):
            query.query.awaitTermination(SOON)
        read = len(query.rows())
        assert query.rows() == [(0, offset) for offset in range(read)]

        rest = stream(**given, trigger={"availableNow": True}, failOnDataLoss="false")
        rest.query.awaitTermination(SOON)
    offsets = [offset for _, offset in rest.rows()]
    assert offsets[-100:] == list(range(900, 1000))
    assert offsets == sorted(set(offsets))
