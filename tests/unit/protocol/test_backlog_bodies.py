import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.backlog_bodies import (
    ConsumeQueue,
    Place,
    TimeSpan,
    decode_committed,
    decode_consume_queue,
    decode_time_spans,
)
from orderly.protocol.broker_bodies import (
    encode_committed,
    encode_consume_queue,
    encode_time_spans,
)

QUEUES = [MessageQueue("orders", "broker-a", i) for i in range(2)]
NOW = 1_795_284_042.828

names = st.text(st.sampled_from("ab%_-|"), min_size=1, max_size=8)
longs = st.integers(-(2**63), 2**63 - 1)


def test_a_real_brokers_offsets_are_read():
    body = (
        b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795284017581},'
        b'"groupTopicMap":{"g1":["t1"],"g2":["t1"]},'
        b'"offsetTable":{"t1@g2":{-1:1,1:-7,77:7},"t1@g1":{0:1},"%RETRY%g1@g1":{}},'
        b'"pullOffsetTable":{"t1@g1":{0:9}}}'
    )
    assert decode_committed(body) == {
        ("g2", "t1"): {-1: 1, 1: -7, 77: 7},
        ("g1", "t1"): {0: 1},
        ("g1", "%RETRY%g1"): {},
    }


@given(
    st.dictionaries(st.tuples(names, names), st.dictionaries(st.integers(-9, 99), longs)),
    st.booleans(),
)
def test_offsets_survive_the_wire_in_either_kind_of_json(offsets, standard):
    body = encode_committed(offsets)
    if standard:
        table = {f"{topic}@{group}": queues for (group, topic), queues in offsets.items()}
        body = json.dumps({"offsetTable": table}, indent=1).encode()
    assert decode_committed(body) == offsets


def test_an_entry_that_names_no_group_hides_no_other():
    body = b'{"offsetTable":{"t":{0:1},"a@b@c":{0:1},"@g":{0:1},"t@":{0:1},"t@g":{0:1}}}'
    assert decode_committed(body) == {("g", "t"): {0: 1}}


@pytest.mark.parametrize(
    "offsets",
    [
        "5",
        "[]",
        '{"a":1}',
        '{"1_0":1}',
        '{" 1":1}',
        '{"\u0663":1}',
        '{"":1}',
        '{"0,1":1,"2":2}',
        '{0:"1"}',
        "{0:1.5}",
        "{0:null}",
        "{0:{}}",
        "{0:9223372036854775808}",
        "{12345678901:1}",
    ],
)
def test_damaged_offsets_are_a_protocol_error(offsets):
    with pytest.raises(ProtocolError):
        decode_committed(f'{{"offsetTable":{{"t@g":{offsets}}}}}'.encode())


def span_of(**fields):
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "orders"}
    return json.dumps({"consumeTimeSpanSet": [{"messageQueue": queue} | fields]}).encode()


def test_a_real_brokers_ages_are_read():
    body = span_of(
        consumeTimeStamp=1795284042751,
        consumeTimeStampStr="2026-11-21#18:00:42:751",
        delayTime=73,
        maxTimeStamp=1795284042758,
        minTimeStamp=1795284042751,
    )
    assert decode_time_spans(body) == {QUEUES[0]: TimeSpan(1795284042.751, 1795284042.758, 0.073)}


def test_the_age_of_a_message_that_is_not_there_is_not_known():
    """The broker takes its clock plus 1 ms for it."""
    body = span_of(delayTime=1795284042830, maxTimeStamp=-1, minTimeStamp=-1)
    assert decode_time_spans(body) == {QUEUES[0]: TimeSpan(None, None, None)}


def test_a_clock_that_was_put_back_makes_no_negative_age():
    assert decode_time_spans(span_of(delayTime=-5000))[QUEUES[0]].delay == 0.0


def test_ages_survive_the_wire():
    spans = {QUEUES[0]: TimeSpan(NOW - 9, NOW - 1, 9.5), QUEUES[1]: TimeSpan(None, None, None)}
    assert decode_time_spans(encode_time_spans(spans, NOW)) == spans


def test_places_in_the_log_are_read():
    body = (
        b'{"maxQueueIndex":3,"minQueueIndex":1,"queueData":'
        b'[{"eval":false,"physicOffset":897,"physicSize":226,"tagsCode":98}]}'
    )
    part = ConsumeQueue(1, 3, (Place(897, 226, 98),))
    assert decode_consume_queue(body) == part
    assert decode_consume_queue(encode_consume_queue(part)) == part


def test_an_index_that_is_not_there_is_answered_without_a_body():
    assert decode_consume_queue(b"") is None


@pytest.mark.parametrize("decode", [decode_committed, decode_time_spans, decode_consume_queue])
@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"offsetTable":[],"consumeTimeSpanSet":{},"queueData":5}',
        b'{"offsetTable":{"t@g":1},"consumeTimeSpanSet":[{}],"queueData":[]}',
        (
            b'{"offsetTable":1,"consumeTimeSpanSet":[{"messageQueue":{"topic":"t"}}],'
            b'"minQueueIndex":0,"maxQueueIndex":1,"queueData":[{"physicOffset":1}]}'
        ),
    ],
)
def test_damaged_answers_are_a_protocol_error(decode, body):
    with pytest.raises(ProtocolError):
        decode(body)
