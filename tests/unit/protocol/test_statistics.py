from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol import statistics
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.statistics import (
    ConsumerConnection,
    OffsetPair,
    TopicOffset,
    decode_connections,
    decode_consume_stats,
    decode_topic_stats,
    encode_topic_stats,
)

QUEUE_KEY = '{"brokerName":"broker-a","queueId":3,"topic":"orders"}'
QUEUE = MessageQueue("orders", "broker-a", 3)


@pytest.mark.parametrize("key", [QUEUE_KEY, json.dumps(QUEUE_KEY)], ids=["object", "text"])
def test_topic_stats_are_read_with_either_kind_of_key(key):
    offsets = '{"lastUpdateTimestamp":1700000000123,"maxOffset":9,"minOffset":2}'
    body = f'{{"offsetTable":{{{key}:{offsets}}},"topicPutTps":0.0}}'
    assert decode_topic_stats(body.encode()) == {QUEUE: TopicOffset(2, 9, 1700000000.123)}


names = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(["t", "%RETRY%g"])
longs = st.integers(-(10**18) + 1, 10**18 - 1)
moments = st.integers(-1, 10**14).map(lambda ms: ms / 1000)
queues = st.builds(MessageQueue, names, names, st.integers(0, 99))


@given(st.dictionaries(queues, st.builds(TopicOffset, longs, longs, moments), max_size=4))
def test_topic_stats_are_the_same_whether_read_with_speed_or_with_care(offsets):
    body = encode_topic_stats(offsets)
    careful = body.replace(b'{"offsetTable"', b'{ "offsetTable"', 1)
    assert decode_topic_stats(body) == decode_topic_stats(careful)


def test_what_a_broker_writes_is_read_with_speed():
    """Three times faster than with care: a scan reads hundreds of these."""
    key = {"brokerName": "broker-a", "queueId": 3, "topic": "%RETRY%orders"}
    row = {"lastUpdateTimestamp": 1_700_000_000_123, "maxOffset": 9, "minOffset": 2}
    rows = ",".join([f"{json.dumps(key)}:{json.dumps(row)}"] * 2).replace(" ", "")
    body = f'{{"offsetTable":{{{rows}}},"topicPutTps":1.0E-5}}'.encode()
    assert statistics._USUAL_STATS.fullmatch(body)
    assert statistics._USUAL_STATS.fullmatch(encode_topic_stats(decode_topic_stats(body)))


def test_consume_stats_are_read():
    offsets = '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":0,"pullOffset":6}'
    body = f'{{"consumeTps":0.0,"offsetTable":{{{QUEUE_KEY}:{offsets}}}}}'
    assert decode_consume_stats(body.encode()) == {QUEUE: OffsetPair(9, 4, 6, 0.0)}


def test_an_empty_table_is_empty():
    assert decode_consume_stats(b'{"consumeTps":0,"offsetTable":{}}') == {}
    assert decode_topic_stats(b"{}") == {}


def test_the_members_of_a_group_are_read():
    body = (
        b'{"connectionSet":[{"clientAddr":"127.0.0.1:55555","clientId":"c@1","language":"PYTHON",'
        b'"version":513}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":'
        b'{"t":{"classFilterMode":false,"codeSet":[97],"expressionType":"TAG","subString":"a",'
        b'"subVersion":5,"tagsSet":["a"],"topic":"t"}}}'
    )
    found = decode_connections(body)
    assert found.connections == (ConsumerConnection("c@1", "127.0.0.1:55555", "PYTHON", 513),)
    assert found.subscriptions == {"t": Subscription.from_expression("t", "a", 5)}
    assert (found.consume_type, found.message_model, found.consume_from) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
    )


@pytest.mark.parametrize(
    "body",
    [
        b"5",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"x":{}}}',
        b'{"offsetTable":{{"topic":"t","brokerName":"b"}:{}}}',
        b'{"offsetTable":{{"topic":"t","brokerName":"b","queueId":0}:5}}',
        b'{"offsetTable":{{"topic":"t","brokerName":"b","queueId":0}:{"maxOffset":"1","pullOffset":1.5}}}',
        b'{"offsetTable":{{"topic":"\\ud800","brokerName":"b","queueId":9223372036854775808}:{}}}',
    ],
)
def test_damaged_stats_are_a_protocol_error(body):
    for decode in (decode_topic_stats, decode_consume_stats):
        with pytest.raises(ProtocolError):
            decode(body)


@given(st.binary(max_size=60))
def test_garbage_gives_a_value_or_a_protocol_error(body):
    for decode in (decode_topic_stats, decode_consume_stats, decode_connections):
        try:
            decode(body)
        except ProtocolError:
            continue
