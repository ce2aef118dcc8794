"""What the sink refuses; every Spark error carries our text, and nothing disordered is done."""

import pytest

from orderly.errors import ConfigError, TopicNotFound
from orderly.spark.sink import ordered_batches, write_ordered
from orderly.spark.source import register
from tests.support.topics import stored


@pytest.fixture(scope="module")
def topic(orderly_topic):
    return orderly_topic(queues=2)


@pytest.fixture
def refused(orderly_namesrv, topic):
    """Write rows as they lie; returns the error's text."""

    def write(frame, mode="append", **options):
        register(frame.sparkSession)
        given = {"topic": topic, "orderBy": "seq", "namesrv": orderly_namesrv, **options}
        with pytest.raises(Exception) as failed:
            frame.write.format("rocketmq").mode(mode).options(**given).save()
        return str(failed.value)

    return write


@pytest.fixture
def rows(spark):
    def rows(*rows):
        schema = "sharding_key string, seq bigint, body string"
        return spark.createDataFrame(rows, schema).coalesce(1)

    return rows


def test_what_cannot_work_is_refused_before_anything_is_sent(rows, refused, orderly_namesrv, topic):
    fine = rows(("a", 1, "x"))
    assert "can only be appended to" in refused(fine, mode="overwrite")
    assert "no running broker has the topic 'no-such-topic'" in refused(fine, topic="no-such-topic")
    assert "column extra would not be sent" in refused(fine.selectExpr("*", "1 extra"))
    assert stored(orderly_namesrv, topic, 0, 2) == []


def test_a_row_that_cannot_be_sent_is_named(rows, refused):
    assert "row 1 of partition 0: the key is null" in refused(rows(("a", 1, "x"), (None, 2, "x")))


def test_a_key_that_goes_back_is_named(rows, refused):
    told = refused(rows(("a", 1, "x"), ("b", 1, "x"), ("a", 3, "x"), ("a", 2, "x")))
    assert "row 3 of partition 0: key 'a' goes back from seq 3 to 2" in told


def test_a_key_in_two_partitions_is_not_called_done(spark, refused):
    frame = spark.range(0, 100, 1, 2).selectExpr("'a' sharding_key", "id seq", "string(id) body")
    assert "rows of a key were in several partitions (1 keys at least)" in refused(frame)


def test_a_stream_is_no_frame(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match="foreachBatch"):
        write_ordered(stream, topic="t", order_by="value")


def test_a_topic_that_is_missing_is_named_before_a_row_is_read(spark, rows, orderly_namesrv):
    to = {"topic": "no-such-topic", "order_by": "seq", "namesrv": orderly_namesrv}
    unread = rows(("a", 1, "x")).selectExpr("sharding_key", "seq", "raise_error('read') AS body")
    unread = unread.selectExpr("sharding_key", "seq", "CAST(body AS string) AS body")
    with pytest.raises(TopicNotFound, match="no running broker has the topic 'no-such-topic'"):
        write_ordered(unread, **to)
    with pytest.raises(TopicNotFound, match="'no-such-topic'"):
        ordered_batches(**to)
    with pytest.raises(ConfigError, match="column extra would not be sent"):
        write_ordered(unread.selectExpr("*", "1 extra"), **to)
