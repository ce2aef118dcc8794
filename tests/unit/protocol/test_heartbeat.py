"""Producers by group: what a broker writes (release 5.5.0), and what is no such table."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError, ProtocolError
from orderly.protocol.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    ProducerData,
    Subscription,
    decode_heartbeat,
    decode_producers,
    encode_heartbeat,
    encode_producers,
)

names = st.text("abcXYZ019_-%|", min_size=1, max_size=12)
tags = st.lists(st.text("abc\u8ba2", min_size=1, max_size=4), min_size=1, max_size=4)
expressions = st.just("*") | tags.map(" || ".join)
subscriptions = st.builds(
    Subscription.from_expression, names, expressions, st.integers(0, 2**63 - 1)
)
consumers = st.builds(
    ConsumerData,
    names,
    st.lists(subscriptions, max_size=3).map(tuple),
    st.sampled_from(ConsumeType),
    st.sampled_from(MessageModel),
    st.sampled_from(ConsumeFromWhere),
    st.booleans(),
)
heartbeats = st.builds(
    Heartbeat,
    names,
    st.lists(st.builds(ProducerData, names), max_size=2).map(tuple),
    st.lists(consumers, max_size=2).map(tuple),
)


@given(heartbeats)
def test_a_heartbeat_survives_the_wire(heartbeat):
    assert decode_heartbeat(encode_heartbeat(heartbeat)) == heartbeat


def test_the_body_is_what_java_reads():
    subscription = Subscription.from_expression("orders", "paid || created", 1700000000000)
    heartbeat = Heartbeat(
        "10.0.0.1@7#x", (ProducerData("p"),), (ConsumerData("g", (subscription,)),)
    )
    assert json.loads(encode_heartbeat(heartbeat)) == {
        "clientID": "10.0.0.1@7#x",
        "producerDataSet": [{"groupName": "p"}],
        "consumerDataSet": [
            {
                "groupName": "g",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": [
                    {
                        "topic": "orders",
                        "subString": "paid || created",
                        "tagsSet": ["created", "paid"],
                        "codeSet": [3433164, 1028554472],
                        "subVersion": 1700000000000,
                        "expressionType": "TAG",
                        "classFilterMode": False,
                    }
                ],
            }
        ],
    }


@pytest.mark.parametrize("expression", ["*", ""])
def test_all_messages_need_neither_tags_nor_codes(expression):
    subscription = Subscription.from_expression("t", expression, 1)
    assert subscription == Subscription("t", "*", frozenset(), frozenset(), 1)
    assert subscription.matches(None)
    assert subscription.matches("anything")


def test_tags_are_trimmed_and_hashed_as_java_does():
    subscription = Subscription.from_expression("t", "\t a||b ||||a ", 1)
    assert subscription.tags == {"a", "b"}
    assert subscription.codes == {97, 98}


def test_a_hash_that_is_negative_in_java_is_negative_here():
    subscription = Subscription.from_expression("t", "polygenelubricants", 1)
    assert subscription.codes == {-(2**31)}


def test_only_the_tags_named_match():
    subscription = Subscription.from_expression("t", "Aa || c", 1)
    assert subscription.matches("Aa")
    assert not subscription.matches("BB")  # the same hash as "Aa"
    assert not subscription.matches(None)


@pytest.mark.parametrize("expression", ["||", "  ", "* || a", "a || *"])
def test_an_expression_that_would_match_nothing_is_refused(expression):
    with pytest.raises(ConfigError, match="write '\\*' for all messages"):
        Subscription.from_expression("t", expression, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"clientID":5}',
        b'{"clientID":"c","producerDataSet":{}}',
        b'{"clientID":"c","producerDataSet":[5]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"SOMEHOW"}]}',
    ],
)
def test_what_is_no_heartbeat_is_a_protocol_error(body):
    with pytest.raises(ProtocolError):
        decode_heartbeat(body)


def test_what_a_broker_writes_is_read():
    body = (
        b'{"data":{"shop":[{"clientId":"1.2.3.4@7#x","language":"PYTHON","lastUpdateTimestamp":1,'
        b'"remoteIP":"/1.2.3.4:5","version":513},{"clientId":"b"}],"idle":[]}}'
    )
    assert decode_producers(body) == {"shop": ("1.2.3.4@7#x", "b"), "idle": ()}


def test_what_is_written_is_read_again():
    table = {"shop": ("a", "b")}
    assert decode_producers(encode_producers(table)) == table


@pytest.mark.parametrize(
    "body", [b"[]", b'{"data":[]}', b'{"data":{"g":[1]}}', b'{"data":{"g":[{}]}}']
)
def test_anything_else_is_a_protocol_error(body):
    with pytest.raises(ProtocolError):
        decode_producers(body)
