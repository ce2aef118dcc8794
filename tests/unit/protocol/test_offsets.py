"""Committed offsets searched in the text: the same as parsing all of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.offsets import (
    decode_committed,
    decode_member_offsets,
    decode_offsets_of_members,
    decode_reset,
    encode_committed,
    encode_member_offsets,
    encode_offsets_of_members,
    encode_reset,
    encode_reset_list,
    read_committed,
)
from orderly.protocol.pull import ConsumeQueue, Place, decode_consume_queue, encode_consume_queue
from orderly.protocol.statistics import TimeSpan, decode_time_spans, encode_time_spans

texts = st.text(st.characters(codec="utf-8"), max_size=10)
queues = st.builds(MessageQueue, texts, texts, st.integers(0, 2**31 - 1))
offsets = st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=4)

QUEUE = MessageQueue("t", "b", 3)
KEY = '{"brokerName":"b","queueId":3,"topic":"t"}'


@pytest.mark.parametrize("encode", [encode_reset, encode_reset_list])
@given(table=offsets)
def test_a_reset_survives_the_wire_in_both_forms(encode, table):
    assert decode_reset(encode(table)) == table


@given(offsets)
def test_a_members_offsets_survive_the_wire(table):
    assert decode_member_offsets(encode_member_offsets(table)) == table


@given(st.dictionaries(texts, offsets, max_size=3))
def test_the_offsets_of_members_survive_the_wire(table):
    assert decode_offsets_of_members(encode_offsets_of_members(table)) == table


def test_queues_are_written_as_whole_objects():
    assert encode_reset({QUEUE: 7}) == f'{{"offsetTable":{{{KEY}:7}}}}'.encode()
    mine = encode_member_offsets({QUEUE: 7})
    assert mine == f'{{"messageQueueTable":{{{KEY}:7}},"consumerTable":{{}}}}'.encode()


def test_the_list_for_cpp_is_what_java_sends():
    row = '{"brokerName":"b","queueId":3,"topic":"t","offset":7}'
    assert encode_reset_list({QUEUE: 7}) == f'{{"offsetTable":[{row}]}}'.encode()


def test_a_reset_without_a_body_resets_nothing():
    assert decode_reset(b"") == {}


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":7}',
        b'{"offsetTable":[{"topic":"t"}]}',
        b'{"offsetTable":{"t":7}}',
        b'{"offsetTable":{{"topic":"t","brokerName":"b","queueId":3}:"7"}}',
    ],
)
def test_what_is_no_reset_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_reset(body)


NAMES = st.text("ab%_|-", min_size=1, max_size=3)
TABLES = st.dictionaries(
    st.tuples(NAMES, NAMES),
    st.dictionaries(st.integers(-1, 20), st.integers(-(2**63), 2**63 - 1), max_size=4),
    max_size=6,
)


@given(TABLES, st.frozensets(NAMES, max_size=3))
def test_it_finds_what_reading_all_finds(table, groups):
    body = encode_committed(table)
    everything = decode_committed(body)
    wanted = {pair: offsets for pair, offsets in everything.items() if pair[0] in groups}
    assert read_committed(body, groups) == wanted
    assert read_committed(body) == everything


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{"orders@pay":{0:1},"x@y":{0:2}},"pullOffsetTable":{"orders@pay":{0:7}}}',
        b'{"pullOffsetTable":{"orders@pay":{0:7}},"offsetTable":{"orders@pay":{0:1}}}',
        b'{"offsetTable":{"orders@pay":{"0":1}}}',  # as standard JSON has it
        b'{ "offsetTable" : { "orders@pay" : { "0" : 1 } } }',
        b'{"offsetTable":{"ord\\u0065rs@pay":{0:1}}}',
        b'{"offsetTable":{"orders@pay":{0:1},"a@b@pay":{0:2},"@pay":{0:2},"pay":{0:3}}}',
    ],
)
def test_other_tables_and_other_ways_to_write_one_do_not_disturb(body):
    assert read_committed(body, ["pay"]) == {("pay", "orders"): {0: 1}}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{}x",
        b'{"offsetTable":{"orders@pay":{0:1:2}}}',
        b'{"offsetTable":{"orders@pay":{0:-}}}',
        b'{"offsetTable":{"orders@pay":{0:99999999999999999999}}}',
    ],
)
def test_what_is_no_such_table_is_refused(body):
    with pytest.raises(ProtocolError):
        read_committed(body, ["pay"])


def test_without_groups_there_is_nothing():
    assert read_committed(b'{"offsetTable":{"orders@pay":{0:1}}}', []) == {}


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
