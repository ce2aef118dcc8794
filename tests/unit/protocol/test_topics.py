from __future__ import annotations

import pytest

from orderly.errors import ProtocolError
from orderly.protocol.topics import (
    TopicConfig,
    changed_attributes,
    decode_topic_config,
    decode_topic_configs,
    encode_topic_config,
    encode_topic_configs,
)

CONFIG = TopicConfig(
    name="orders",
    read_queues=4,
    write_queues=8,
    perm=4,
    order=True,
    sys_flag=1,
    attributes={"message.type": "FIFO"},
)


def test_what_is_written_is_read():
    assert decode_topic_config(encode_topic_config(CONFIG)) == CONFIG


def test_a_real_brokers_answer_is_read():
    body = (
        b'{"attributes":{},"order":true,"perm":6,"readQueueNums":2,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"t1","topicSysFlag":0,"writeQueueNums":2}'
    )
    expected = TopicConfig(name="t1", read_queues=2, write_queues=2, order=True)
    assert decode_topic_config(body) == expected


def test_all_topics_survive_the_wire_with_what_asks_for_the_next_page():
    other = TopicConfig(name="%RETRY%g", read_queues=1, write_queues=1)
    body = encode_topic_configs([CONFIG, other], {"counter": 3, "timestamp": 1})
    found = decode_topic_configs(body)
    assert found.topics == {"orders": CONFIG, "%RETRY%g": other}
    assert found.version == '{"counter":3,"timestamp":1}'


@pytest.mark.parametrize("body", [b"[]", b'{"topicConfigTable":{"t":5}}', b'{"dataVersion":1}'])
def test_any_other_table_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_topic_configs(body)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"topicName":"t","readQueueNums":-1}'])
def test_anything_else_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_topic_config(body)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (None, {"a": "1"}),
        ("", {"a": "1"}),
        ("+b=2", {"a": "1", "b": "2"}),
        ("+a=2, +b=x=y", {"a": "2", "b": "x=y"}),
        ("-a", {}),
        ("-other", {"a": "1"}),
    ],
)
def test_attributes_not_mentioned_stay(changes, expected):
    assert changed_attributes({"a": "1"}, changes) == expected
