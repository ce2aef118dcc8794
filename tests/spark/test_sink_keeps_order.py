"""What `write_ordered` sends is all there, each key in its order, whatever order the rows had."""

import pytest

from orderly.cli.demo.flights import load_events
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors import hash_mod
from orderly.spark.sink import ordered_batches, write_ordered
from orderly.spark.source import register
from orderly.spark.stamps import ID, SEQ
from orderly.testing.oracle import Delivered, Sent, judge
from tests.support.topics import by_key, stored

QUEUES = 4


@pytest.fixture(scope="module")
def events():
    """Flight events, numbered in time: (tail number, number, body)."""
    return [
        (event.tail, number, event.body(number))
        for number, event in enumerate(load_events(5_000)[0])
    ]


@pytest.fixture(scope="module")
def frame(spark, events):
    schema = "sharding_key string, seq bigint, body binary"
    return spark.createDataFrame(events, schema).repartition(7).cache()


def test_flights_are_stored_in_the_order_of_each_aircraft(
    frame, events, orderly_namesrv, orderly_topic
):
    topic = orderly_topic(queues=QUEUES)
    for _ in range(2):  # the second time as if the first had been aborted at its end
        write_ordered(frame, topic=topic, order_by="seq", namesrv=orderly_namesrv, partitions=3)
    messages = stored(orderly_namesrv, topic, 2 * len(events), QUEUES)

    assert len(messages) == 2 * len(events)
    assert _verdict(events, messages).ok
    queues = tuple(MessageQueue(topic, "broker-a", number) for number in range(QUEUES))
    for message in messages:
        assert message.queue == hash_mod(queues, Message(topic, b"x"), message.sharding_key)
    ids = [message.properties[ID] for message in messages]
    assert len(set(ids)) == len(events)
    assert len({message.message_id for message in messages}) == len(messages)


def _verdict(events, messages):
    """The oracle's, with what is stored taken for what a consumer was given."""
    home = {}
    for message in messages:
        home.setdefault(int(message.properties[SEQ]), message)
    sent = [
        Sent(tail, number, home[number].queue, home[number].queue_offset)
        for tail, number, _ in events
    ]
    return judge(
        sent,
        [
            Delivered(m.sharding_key, int(m.properties[SEQ]), m.queue, m.queue_offset)
            for m in messages
        ],
    )


def test_all_columns_are_sent(spark, orderly_namesrv, orderly_topic):
    topic = orderly_topic(queues=1)
    rows = [
        (7, "2026-11-21 10:00:00.000001", "first", "A", "k1 k2", {"é": "ü", "b": "2"}, "id-1"),
        (7, "2026-11-21 10:00:01", "second", None, None, None, "id-2"),
        (7, "2026-11-21 10:00:01", "the same time", None, None, {}, "id-3"),
    ]
    schema = (
        "customer bigint, at string, body string, tag string, keys string,"
        " properties map<string,string>, id string"
    )
    frame = spark.createDataFrame(rows, schema).selectExpr(
        "customer", "to_timestamp(at) at", "body", "tag", "keys", "properties", "id"
    )
    write_ordered(
        frame,
        topic=topic,
        order_by="at",
        key_column="customer",
        id_column="id",
        selector="numeric_mod",
        namesrv=orderly_namesrv,
    )
    first, second, third = stored(orderly_namesrv, topic, 3, 1)

    assert first.body == b"first"
    assert (first.sharding_key, first.tags, first.keys) == ("7", "A", ("k1", "k2"))
    assert first.properties.items() >= {"é": "ü", "b": "2", SEQ: "1795255200000001"}.items()
    ids = [message.properties[ID] for message in (first, second, third)]
    assert sorted(ids) == ["id-1", "id-2", "id-3"]
    assert (second.tags, second.keys) == (None, ())


def test_a_single_queue_holds_all_rows_in_one_order(spark, orderly_namesrv, orderly_topic):
    topic = orderly_topic(queues=2)
    frame = spark.range(3_000).selectExpr("id seq", "string(id) body").repartition(4)
    write_ordered(
        frame, topic=topic, order_by="seq", selector="single_queue", namesrv=orderly_namesrv
    )
    messages = stored(orderly_namesrv, topic, 3_000, 2)
    assert [int(message.body) for message in messages] == list(range(3_000))
    assert {message.queue.queue_id for message in messages} == {0}


def test_a_stream_is_written_in_order_batch_after_batch(
    spark, orderly_namesrv, orderly_topic, tmp_path
):
    topic = orderly_topic(queues=2)
    _files(spark, tmp_path / "in", "body")  # that is no order: "10" comes before "9"
    write = ordered_batches(topic=topic, order_by="seq", namesrv=orderly_namesrv)
    _run(_stream(spark, tmp_path / "in").foreachBatch(write), tmp_path)
    assert _numbers(orderly_namesrv, topic) == _IN_ORDER


def test_a_stream_whose_rows_lie_in_order_may_be_written_as_it_is(
    spark, orderly_namesrv, orderly_topic, tmp_path
):
    register(spark)
    topic = orderly_topic(queues=2)
    _files(spark, tmp_path / "in", "seq")
    options = {"topic": topic, "orderBy": "seq", "namesrv": orderly_namesrv}
    _run(_stream(spark, tmp_path / "in").format("rocketmq").options(**options), tmp_path)
    assert _numbers(orderly_namesrv, topic) == _IN_ORDER


_IN_ORDER = {key: list(range(int(key), 600, 3)) for key in ("0", "1", "2")}


def _numbers(namesrv, topic):
    return by_key(stored(namesrv, topic, 600, 2), lambda message: int(message.properties[SEQ]))


def _files(spark, directory, order):
    """600 rows in two files, later ones in the second; within a file sorted by `order`."""
    for part in range(2):
        rows = spark.range(300 * part, 300 * part + 300).selectExpr(
            "string(id % 3) sharding_key", "id seq", "string(id) body"
        )
        rows = rows.coalesce(1).sortWithinPartitions(order)
        rows.write.mode("append").parquet(str(directory))


def _stream(spark, directory):
    source = spark.readStream.schema("sharding_key string, seq bigint, body string")
    return source.option("maxFilesPerTrigger", 1).parquet(str(directory)).writeStream


def _run(stream, directory):
    stream = stream.option("checkpointLocation", str(directory / "state"))
    stream.trigger(availableNow=True).start().awaitTermination()
