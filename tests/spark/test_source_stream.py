"""`spark.readStream.format("rocketmq")`: each message in exactly one batch, whatever happens."""

import contextlib

import pytest

from orderly import Message
from orderly.spark.source import register
from orderly.testing import FakeBroker
from tests.support.consuming import unique
from tests.support.topics import fill
from tests.support.waiting import eventually, patient_client, patient_producer


class Stream:
    """A query over a topic, from run to run with one checkpoint."""

    def __init__(self, spark, home, **options):
        self._spark = spark
        self._home = home
        self.options = {"startingOffsets": "earliest"} | options
        self.batches = []
        self.fail = False
        self.query = None

    def start(self, **trigger):
        reader = self._spark.readStream.format("rocketmq").options(**self.options)
        frame = reader.schema("queue_id int, queue_offset bigint").load()
        writer = frame.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._home)).trigger(**trigger)
        self.query = writer.start()
        return self.query

    def run(self):
        """Read what is there now; returns the batches of this run."""
        before = len(self.batches)
        assert self.start(availableNow=True).awaitTermination(150)
        return self.batches[before:]

    def rows(self):
        return sorted(row for batch in self.batches for row in batch)

    def _take(self, frame, number):
        rows = [tuple(row) for row in frame.collect()]
        if self.fail:
            raise RuntimeError("the sink fails")
        if rows:
            self.batches.append(rows)


@pytest.fixture
def stream(spark, orderly_namesrv, tmp_path):
    register(spark)
    streams = []

    def make(**options):
        streams.append(Stream(spark, tmp_path / "checkpoint", **options))
        return streams[-1]

    yield make
    for each in streams:
        with contextlib.suppress(Exception):
            each.query.stop()


def send(namesrv, topic, count):
    """Messages of so many keys that each queue gets some; returns (queue id, offset) of each."""
    with patient_producer(namesrv) as producer:
        futures = [
            producer.submit(Message(topic, b"%d" % n, sharding_key=f"key-{n % 40}"))
            for n in range(count)
        ]
        return [(r.queue.queue_id, r.queue_offset) for r in (each.result() for each in futures)]


def test_batches_are_limited_and_a_restart_reads_on_also_in_new_queues(
    stream, orderly_namesrv, orderly_topic
):
    topic = orderly_topic(queues=2)
    sent = send(orderly_namesrv, topic, 250)
    query = stream(namesrv=orderly_namesrv, topic=topic, maxOffsetsPerTrigger="100")
    assert [len(batch) for batch in query.run()] == [100, 100, 50]
    assert query.rows() == sorted(sent)
    last = query.query.lastProgress.sources[0]
    assert last.latestOffset == last.endOffset
    assert query.run() == []
    with patient_client(orderly_namesrv) as client:
        (broker,) = client.routes.refresh(topic).brokers
        client.admin.grow_topic(topic, broker, 4, client.admin.topic_config(topic, broker))
        eventually(lambda: len(client.routes.refresh(topic).write_queues()) == 4)
    sent += send(orderly_namesrv, topic, 80)
    assert sum(map(len, query.run())) == 80
    assert query.rows() == sorted(sent)
    assert {queue_id for queue_id, _ in query.rows()} == {0, 1, 2, 3}


def test_the_first_batch_is_the_same_when_it_is_run_again(stream, orderly_namesrv, orderly_topic):
    topic, group = orderly_topic(queues=1), unique("group")
    send(orderly_namesrv, topic, 30)
    query = stream(namesrv=orderly_namesrv, topic=topic, startingOffsets=f"group:{group}")
    with patient_client(orderly_namesrv) as client:
        (queue,) = client.routes.get(topic).read_queues()
        client.groups.group_config(group, queue.broker_name)  # makes the group
        client.brokers.update_offset(group, queue, 10)
        query.fail = True
        with pytest.raises(Exception, match="the sink fails"):
            query.run()
        client.brokers.update_offset(group, queue, 20)  # where it would begin now
    query.fail = False
    assert query.run() == [[(0, offset) for offset in range(10, 30)]]


def test_a_group_that_nobody_knows_ends_the_stream_unless_it_may_be(
    stream, orderly_namesrv, orderly_topic
):
    topic = orderly_topic(queues=1)
    send(orderly_namesrv, topic, 5)
    options = {"namesrv": orderly_namesrv, "topic": topic, "startingOffsets": "group:shiping"}
    with pytest.raises(Exception, match="'shiping' has committed nothing"):
        stream(**options).run()
    assert stream(**options, unknownGroup="latest").run() == []


def test_a_stream_outlives_its_broker_and_tells_what_is_lost(stream):
    with FakeBroker() as fake:
        fake.create_topic("orders", 2)
        fill(fake, "orders", {0: 40})
        query = stream(namesrv=fake.namesrv, topic="orders")
        query.start(processingTime="200 milliseconds")
        eventually(lambda: len(query.rows()) == 40, within=60)
        fake.kill_broker()
        batch = eventually(lambda: query.query.lastProgress).batchId
        eventually(lambda: query.query.status["message"].startswith("Waiting"), within=30)
        assert query.query.isActive
        fake.restart_broker()
        fill(fake, "orders", {1: 10})
        eventually(lambda: len(query.rows()) == 50, within=60)
        assert query.query.lastProgress.batchId >= batch
        fake.create_topic("orders", 1)
        eventually(lambda: not query.query.isActive, within=60)
    first = "\n".join(str(query.query.exception()).splitlines()[:6])
    assert "DataLost" in first
    assert "orders/broker-a/1" in first
