"""`spark.read.format("rocketmq")`: what is stored is read, once, and nobody notices."""

import re
from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.cloudpickle import dumps as pickled
from pyspark.sql.types import IntegerType, StructField, StructType

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from orderly.errors import ConfigError
from orderly.spark.discovering import pin
from orderly.spark.offsets import dump_offsets
from orderly.spark.source import RocketMQDataSource, read
from tests.support.consuming import unique
from tests.support.waiting import (
    await_visible_at,
    eventually,
    patient_client,
    patient_producer,
)

MESSAGES = 400


@pytest.fixture(scope="module")
def sent(orderly_namesrv, orderly_topic):
    """A topic of 4 queues; its messages, each with where it was stored."""
    topic = orderly_topic(queues=4)
    messages = [
        Message(
            topic,
            b"body %d" % number,
            sharding_key=f"key-{number % 23}",
            tags="AB"[number % 2],
            keys=("w1", f"w{number}"),
            properties={"oseq": str(number), "note": "ä\x7f"},
        )
        for number in range(MESSAGES)
    ]
    with patient_producer(orderly_namesrv) as producer:
        results = [each.result() for each in [producer.submit(message) for message in messages]]
    await_visible_at(orderly_namesrv)
    return list(zip(messages, results, strict=True))


@pytest.fixture(scope="module")
def topic(sent):
    return sent[0][0].topic


@pytest.fixture
def orders(spark, orderly_namesrv, topic):
    def reader(**options):
        given = {"namesrv": orderly_namesrv, "topic": topic} | options
        return spark.read.format("rocketmq").options(**given)

    return reader


def test_every_message_is_read_as_it_was_sent(orders, sent):
    rows = orders(seqProperty="oseq", includeProperties="true").load().collect()
    found = {(row.queue_id, row.queue_offset): row for row in rows}
    assert len(found) == len(rows) == MESSAGES
    for message, result in sent:
        row = found[result.queue.queue_id, result.queue_offset]
        assert (row.topic, row.broker) == (message.topic, result.queue.broker_name)
        assert (row.body, row.sharding_key, row.tag) == (
            message.body,
            message.sharding_key,
            message.tags,
        )
        assert row.keys == " ".join(message.keys)
        assert row.seq == int(message.properties["oseq"])
        assert row.properties["note"] == message.properties["note"]
        assert row.uniq_key == result.message_id
        assert abs((row.store_ts - row.born_ts).total_seconds()) < 60
    ages = [datetime.now(UTC) - row.store_ts.astimezone(UTC) for row in rows]
    assert all(-1 < age.total_seconds() < 600 for age in ages)


def test_a_schema_or_columns_choose_what_is_read(orders, sent):
    chosen = orders().schema("queue_offset bigint, properties map<string,string>, tag string")
    frame = chosen.load()
    assert frame.columns == ["queue_offset", "properties", "tag"]
    assert Counter(row.tag for row in frame.collect()) == {"A": MESSAGES / 2, "B": MESSAGES / 2}
    frame = orders(columns="tag,seq", tags="A").load()
    assert {tuple(row) for row in frame.collect()} == {("A", None)}
    assert frame.count() == MESSAGES / 2


def send(namesrv, topic, count, key="k"):
    with patient_producer(namesrv) as producer:
        for each in [
            producer.submit(Message(topic, b"%d" % n, sharding_key=f"{key}{n % 7}"))
            for n in range(count)
        ]:
            each.result()
    await_visible_at(namesrv)


def test_pinned_topics_are_read_in_parts_and_stay_what_they_were(
    spark, orderly_namesrv, orderly_topic
):
    topics = [orderly_topic(queues=2), orderly_topic(queues=1)]
    for topic in topics:
        send(orderly_namesrv, topic, 60)
    given = {"namesrv": orderly_namesrv, "topics": ",".join(topics)}
    pinned = pin(given)
    columns = ("topic", "queue_id", "queue_offset")
    frame = read(spark, pinned, columns=columns, minPartitions="11", **given)
    assert 11 <= frame.rdd.getNumPartitions() < 14
    send(orderly_namesrv, topics[0], 5)
    expected = [
        (each.queue.topic, each.queue.queue_id, offset)
        for each in pinned
        for offset in range(each.start, each.end)
    ]
    assert len(expected) == 120
    assert sorted(tuple(row) for row in frame.collect()) == expected


CONDITIONS = {
    "queue_id = 1 and queue_offset >= 7 and queue_offset < 60": 1,
    "sharding_key in ('key-3', 'key-20') and tag = 'B' and store_ts >= timestamp'{median}'": 4,
    "broker = 'no such broker'": 1,  # Spark makes one up where there are none
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_pushed_down_and_change_nothing(orders, sent, condition):
    names = ("topic", "broker", "queue_id", "queue_offset", "sharding_key", "tag", "store_ts")
    plain = orders(columns=",".join(names)).load()
    times = sorted(row.store_ts for row in plain.collect())
    formatted = condition.format(median=times[len(times) // 2])
    pushed = orders(columns=",".join(names), pushdown="true").load().where(formatted)
    assert sorted(pushed.collect()) == sorted(plain.where(formatted).collect())
    assert pushed.rdd.getNumPartitions() <= CONDITIONS[condition]
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    left = re.findall(r"Filter \((.*)\)", plan)
    assert ("store_ts" in condition) == bool(left)
    assert not re.search("queue_id|queue_offset|sharding_key|tag|broker", "".join(left))


ERRORS = {
    "unknown topic": ({"topic": "nosuch"}, "TopicNotFound: .*'nosuch'.*create it"),
    "a typo": ({"startingOffset": "latest"}, "ConfigError: .* did you mean startingOffsets"),
    "offsets beyond the end": (None, r"DataLost: \d+ messages .* \[\d+, 1000000\)"),
}


def test_a_schema_that_a_topic_does_not_have_is_refused(orderly_namesrv):
    source = RocketMQDataSource({"topic": "orders", "namesrv": orderly_namesrv})
    for name, kind, text in (
        ("queue_offset", IntegerType(), "is bigint, not int"),
        ("quue_id", IntegerType(), "the columns are topic, broker, queue_id"),
    ):
        with pytest.raises(ConfigError, match=text):
            source.reader(StructType([StructField(name, kind)]))


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_an_error_says_what_is_wrong_in_its_first_lines(orders, topic, sent, case):
    options, text = case
    if options is None:
        options = {"endingOffsets": dump_offsets({sent[0][1].queue: 1_000_000})}
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
        orders(**options).load().collect()
    first = "\n".join(str(raised.value).splitlines()[:4])
    assert re.search(text, first), first


def test_nobody_is_disturbed_and_nothing_is_left_behind(spark, orderly_namesrv, orderly_topic):
    topic, group = orderly_topic(queues=2), unique("group")
    seen = []

    def handle(messages, context):
        seen.extend(message.body for message in messages)
        return ConsumeResult.SUCCESS

    with patient_client(orderly_namesrv) as client:
        queues = client.routes.get(topic).read_queues()
        config = ConsumerConfig(consume_from="first")
        consumer = OrderlyConsumer(group, handle, client=client, config=config)
        with consumer.subscribe(topic):
            send(orderly_namesrv, topic, 50)
            eventually(lambda: len(seen) == 50)
            members = client.admin.consumer_connections(group).connections
            groups = set(client.admin.groups())
            frame = spark.read.format("rocketmq").options(namesrv=orderly_namesrv, topic=topic)
            assert frame.load().count() == 50
            assert client.admin.consumer_connections(group).connections == members
            assert set(client.admin.groups()) - groups <= {"orderly-spark"}
            send(orderly_namesrv, topic, 50)
            eventually(lambda: len(seen) == 100)
        assert len(seen) == 100
        assert sum(client.brokers.query_offset(group, queue) for queue in queues) == 100
        assert client.admin.consumer_connections("orderly-spark") is None
        assert all(client.brokers.query_offset("orderly-spark", queue) is None for queue in queues)


def test_no_secret_is_pickled(orderly_namesrv, topic, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        f'namesrv = "{orderly_namesrv}"\naccess_key = "who"\nsecret_key = "hush-hush"\n'
    )
    source = RocketMQDataSource({"topic": topic, "settingsfile": str(file)})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert sum(part.value.messages for part in parts) >= MESSAGES
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) >= MESSAGES
    assert b"hush-hush" not in b"".join(map(pickled, (source, reader, *parts)))
    assert b"who" not in pickled(reader)
