from __future__ import annotations

import pickle

import pytest

from orderly.errors import ConfigError
from orderly.spark.columns import DEFAULT_COLUMNS
from orderly.spark.offsets import Edge, GroupPosition, TimePosition
from orderly.spark.options import (
    BATCH,
    SOURCE_OPTIONS,
    STREAM,
    TopicSelection,
    find_option,
    parse_read,
)

TOPIC = {"topic": "orders"}


def test_defaults_of_a_batch_and_of_a_stream():
    batch, stream = parse_read(TOPIC, BATCH), parse_read(TOPIC, STREAM)
    assert (batch.start, batch.end) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.start is Edge.LATEST
    assert batch.fail_on_data_loss
    assert batch.scan.fail_on_data_loss
    assert not batch.pushdown
    assert batch.min_partitions == 1
    assert stream.max_offsets_per_trigger is None
    assert batch.columns == DEFAULT_COLUMNS


def test_names_are_compared_without_regard_to_case():
    options = parse_read({"TOPIC": "orders", "startingoffsets": "group:g", "PULLDEPTH": " 3 "})
    assert options.start == GroupPosition("g")
    assert options.scan.pull_depth == 3


def test_each_option_reaches_its_place():
    options = parse_read(
        TOPIC
        | {
            "namesrv": "a:1;b:2",
            "settingsFile": "/etc/orderly.toml",
            "startingTimestamp": "1763712000000",
            "endingTimestamp": "2025-11-21T08:00:00.001Z",
            "minPartitions": "16",
            "failOnDataLoss": "False",
            "tags": "a || b",
            "columns": "queue_id, body",
            "seqProperty": "oseq",
            "pushdown": "true",
            "pullBatchSize": "32",
            "pullDepth": "2",
            "batchBytes": "65536",
            "groupIdPrefix": "audit",
        }
    )
    assert (options.namesrv, options.settings_file) == ("a:1;b:2", "/etc/orderly.toml")
    assert (options.start, options.end) == (
        TimePosition(1763712000000),
        TimePosition(1763712000001),
    )
    assert (options.min_partitions, options.pushdown, options.columns_given) == (16, True, True)
    scan = options.scan
    assert scan.columns == options.columns == ("queue_id", "body")
    assert (scan.seq_property, scan.tags, scan.pull_batch, scan.pull_depth) == (
        "oseq",
        "a || b",
        32,
        2,
    )
    assert (scan.batch_bytes, scan.group_prefix) == (65536, "audit")
    assert not options.fail_on_data_loss
    assert not scan.fail_on_data_loss
    assert pickle.loads(pickle.dumps(options)) == options


def test_what_is_selected():
    assert parse_read({"topics": "a, b"}).selection == TopicSelection(("a", "b"))
    assert parse_read({"topicPattern": "ord.*"}).selection == TopicSelection(pattern="ord.*")
    assigned = parse_read({"assign": '{"b": {"x": [0]}, "a": {"x": [1]}}'}).selection
    assert assigned.topics == ("a", "b")
    assert {queue.queue_id for queue in assigned.queues} == {0, 1}


BAD = {
    "no topic": ({}, "not none of them"),
    "two selections": (TOPIC | {"topicPattern": "x"}, "not topic and topicPattern"),
    "a bad topic": ({"topic": "a b"}, "a b"),
    "no group": (TOPIC | {"groupIdPrefix": " "}, "group name"),
    "a bad pattern": ({"topicPattern": "("}, "not a regular expression"),
    "the same topic twice": ({"topics": "a,a"}, "twice"),
    "offsets and time": (
        TOPIC | {"startingOffsets": "latest", "startingTimestamp": "1763712000000"},
        "startingOffsets or startingTimestamp",
    ),
    "times the wrong way round": (
        TOPIC | {"startingTimestamp": "1763712000001", "endingTimestamp": "1763712000000"},
        "before",
    ),
    "no number": (TOPIC | {"minPartitions": "many"}, "minPartitions='many' must be a whole"),
    "too small a number": (TOPIC | {"pullDepth": "0"}, "from 1 to 64"),
    "no truth": (TOPIC | {"failOnDataLoss": "no"}, "true or false"),
    "an unknown column": (TOPIC | {"columns": "queue"}, "queue is not a column"),
    "an unknown kind of row": (TOPIC | {"emit": "both"}, "rows, summary"),
    "a stream's option": (TOPIC | {"maxOffsetsPerTrigger": "5"}, "for stream reads only"),
    "columns of a summary": (TOPIC | {"emit": "summary", "columns": "body"}, "columns of its own"),
    "pushdown into a summary": (TOPIC | {"emit": "summary", "pushdown": "true"}, "pushdown"),
    "columns without properties": (
        TOPIC | {"columns": "body", "includeProperties": "true"},
        "columns leaves out properties",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_what_makes_no_sense_is_refused(case):
    given, text = case
    with pytest.raises(ConfigError, match=text):
        parse_read(given)


def test_a_batch_option_is_refused_in_a_stream_and_not_before_it_is_known():
    with pytest.raises(ConfigError, match="endingOffsets is for batch reads only"):
        parse_read(TOPIC | {"endingOffsets": "latest"}, STREAM)
    assert parse_read(TOPIC | {"endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}, kind="")


UNKNOWN = {
    "startingoffset": "did you mean startingOffsets?",
    "topicname": "did you mean topic",
    "frobnicate": "there are namesrv, settingsFile, settingsContext, topic",
    "secretkey": "settingsFile",
    "accessKey": "ORDERLY_ACCESS_KEY",
    "path": r"option\('topic', 'orders'\)",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_option_is_refused_with_advice(name):
    with pytest.raises(ConfigError, match=UNKNOWN[name]):
        find_option(name, SOURCE_OPTIONS)


def test_the_documented_defaults_are_those_that_hold():
    documented = {o.name: o.default.strip("`") for o in SOURCE_OPTIONS if o.default.startswith("`")}
    for kind, left_out in ((BATCH, STREAM), (STREAM, BATCH)):
        names = {o.name for o in SOURCE_OPTIONS if o.only != left_out} & documented.keys()
        given = TOPIC | {name: documented[name] for name in names}
        assert parse_read(given, kind) == parse_read(TOPIC, kind)
