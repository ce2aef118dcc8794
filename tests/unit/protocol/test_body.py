"""The table of a body's fields: what is written is read back, and what is wrong is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Annotated, ClassVar, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import BrokerData, MessageQueue
from orderly.protocol import groups, members, park_record, state_record, statistics, topics
from orderly.protocol.body import (
    INT,
    MAX_QUEUES,
    TEXT,
    Milliseconds,
    Natural,
    QueueCount,
    Version,
    from_json,
    known,
    load_object,
    read_body,
    to_json,
    write_body,
)
from orderly.protocol.ext import is_demanded, wire, wire_name
from orderly.protocol.heartbeat import ConsumerData, Heartbeat, ProducerData, Subscription
from orderly.protocol.java_json import dumps, loads
from orderly.protocol.locks import LockRequest
from orderly.protocol.pull import ConsumeQueue, FilterCheck, Place
from orderly.protocol.route import ClusterInfo

BODIES = [
    groups.GroupConfig, groups.GroupConfigs, topics.TopicConfig, topics.TopicConfigs,
    Subscription, ProducerData, ConsumerData, Heartbeat, LockRequest, ClusterInfo,
    FilterCheck, Place, ConsumeQueue,
    statistics.TopicOffset, statistics.OffsetPair, statistics.ConsumerConnection,
    statistics.ConsumerConnections, statistics.TimeSpan,
    members.QueueInfo, members.TopicConsumeStatus, members.RunningInfo, members.QueueReport,
    members.DirectResult,
    state_record.Acquire, state_record.Confirm, state_record.Trying,
    park_record.Command, park_record.Result, park_record.Released, park_record.ParkDetails,
]  # fmt: skip

texts = st.text(st.characters(codec="utf-8"), max_size=9)
shown = st.text("abc €", max_size=9)
longs = st.integers(-(2**63), 2**63 - 1)
naturals = st.integers(0, 2**63 - 1)
times = st.integers(0, 10**14).map(lambda ms: ms / 1000)
keys = texts | st.integers(-(2**63) + 1, 2**63 - 1)
queues = st.builds(MessageQueue, texts, texts, longs)
brokers = st.builds(
    BrokerData, texts, texts, st.dictionaries(st.integers(0, 10**18), texts, max_size=2)
)
PLAIN = {
    str: texts,
    int: longs,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    MessageQueue: queues,
    BrokerData: brokers,
}
ANNOTATED = {
    Natural: naturals,
    QueueCount: st.integers(0, MAX_QUEUES),
    Milliseconds: times,
    Version: st.dictionaries(texts, longs, max_size=2).map(lambda table: dumps(table).decode()),
    groups._Minutes: st.integers(0, 10**6).map(lambda minutes: minutes * 60.0),
    members._NotEmpty: st.just(False),  # we take no messages by POP
    statistics._Moment: st.none() | times,
    statistics._Delay: st.integers(0, 10**12 - 1).map(lambda ms: ms / 1000),
    park_record._Name: shown,
    park_record._Short: shown,
    park_record._Moment: times,
    park_record._Outcomes: st.lists(st.tuples(longs, shown), max_size=2).map(tuple),
    park_record.WrittenKey: keys,
}


def values_of(hint):
    if hint in PLAIN:
        return PLAIN[hint]
    if hint in ANNOTATED:
        return ANNOTATED[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values_of(args[0])
    if NoneType in args:
        return st.none() | values_of(next(part for part in args if part is not NoneType))
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(values_of(args[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=2)
    return st.sampled_from(hint) if issubclass(hint, StrEnum) else bodies_of(hint)


def bodies_of(cls):
    hints = get_type_hints(cls, include_extras=True)
    return st.builds(cls, **{f.name: values_of(hints[f.name]) for f in dataclasses.fields(cls)})


def name_of(cls):
    return cls.__name__


@pytest.mark.parametrize("cls", BODIES, ids=name_of)
@given(data=st.data())
def test_what_is_written_is_read_back(cls, data):
    body = data.draw(bodies_of(cls))
    assert read_body(cls, write_body(body)) == body


@pytest.mark.parametrize("cls", BODIES, ids=name_of)
def test_a_field_that_is_null_counts_as_missing(cls):
    nulls = {wire_name(f): None for f in dataclasses.fields(cls)}

    def outcome(fields):
        try:
            return from_json(cls, fields)
        except ProtocolError as error:
            return str(error)

    assert outcome(nulls) == outcome({})
    if not any(map(is_demanded, dataclasses.fields(cls))):
        assert outcome({}) == cls()


@pytest.mark.parametrize("cls", BODIES, ids=name_of)
@settings(max_examples=30)
@given(data=st.data())
def test_a_field_of_another_type_is_refused_by_name(cls, data):
    fields = loads(write_body(data.draw(bodies_of(cls))))
    name = data.draw(st.sampled_from([wire_name(f) for f in dataclasses.fields(cls)]))
    wrong = 1.5 if isinstance(fields[name], dict | list) else [{}]
    with pytest.raises(ProtocolError, match=f"'{name}'"):
        from_json(cls, fields | {name: wrong})


class Colour(StrEnum):
    RED = "R"


@dataclass(frozen=True, slots=True)
class Part:
    size: Natural


@dataclass(frozen=True, slots=True)
class Whole:
    also: ClassVar = {"left": 1}

    id: str
    count: QueueCount = wire("numOf")
    colour: Colour = wire("colour", demanded=True, default=Colour.RED)
    parts: tuple[Part, ...] = ()
    sizes: Mapping[MessageQueue, int] = wire("sizeTable", default_factory=dict)
    seen_at: Milliseconds | None = None


GOOD = {"id": "x", "numOf": 2, "colour": "R"}
QUEUE = '{"brokerName":"b","queueId":0,"topic":"t"}'


def test_names_are_camel_case_or_as_declared():
    whole = Whole("x", 2, parts=(Part(7),), sizes={MessageQueue("t", "b", 0): 5}, seen_at=1.5)
    assert write_body(whole).decode() == (
        '{"id":"x","numOf":2,"colour":"R","parts":[{"size":7}],'
        f'"sizeTable":{{{QUEUE}:5}},"seenAt":1500,"left":1}}'
    )


def test_what_a_body_does_not_know_is_passed_over():
    assert from_json(Whole, GOOD | {"left": "x", "new": 3}) == Whole("x", 2)


def test_fields_that_are_given_are_not_read():
    assert from_json(Whole, GOOD | {"parts": 5}, parts=()) == Whole("x", 2)


def test_none_is_null_or_left_out():
    assert to_json(Whole("x", 2))["seenAt"] is None
    assert "seenAt" not in known(to_json(Whole("x", 2)))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"id": None}, "'id' is not a string: None"),
        ({"id": 5}, "'id' is not a string: 5"),
        ({"colour": None}, "'colour' is not a string: None"),
        ({"colour": "B"}, "'colour' is not a Colour: 'B'"),
        ({"numOf": True}, "'numOf' is not a 64-bit integer: True"),
        ({"numOf": -1}, "'numOf' is -1; 0 to 65536 queues are possible"),
        ({"numOf": 65537}, "'numOf' is 65537; 0 to 65536 queues are possible"),
        ({"parts": {}}, "'parts' is not a JSON list: {}"),
        ({"parts": [None]}, "an entry of 'parts' is not a JSON object: None"),
        ({"parts": [{"size": -1}]}, "'size' is -1; at least 0 is possible"),
        ({"parts": [{"size": 2**63}]}, f"'size' is not a 64-bit integer: {2**63}"),
        ({"sizeTable": []}, "'sizeTable' is not a JSON object: []"),
        ({"sizeTable": {QUEUE: "5"}}, f"{QUEUE!r} in 'sizeTable': it is not a 64-bit integer: '5'"),
        ({"sizeTable": {"5": 5}}, "'5' in 'sizeTable': a message queue is not a JSON object: 5"),
        ({"seenAt": 1.5}, "'seenAt' is not a 64-bit integer: 1.5"),
    ],
)
def test_an_error_names_the_field_and_what_is_there(wrong, why):
    with pytest.raises(ProtocolError) as raised:
        from_json(Whole, GOOD | wrong)
    assert str(raised.value) == why


def test_one_field_is_read_by_its_kind():
    assert INT.at({"a": 5}, "a") == INT.at({"a": None}, "a", 5) == 5
    assert TEXT.at({}, "a", None) is None
    with pytest.raises(ProtocolError, match="'a' is not a string: None"):
        TEXT.at({}, "a")


def test_an_empty_body_is_an_empty_object():
    assert load_object(b"") == {}
    with pytest.raises(ProtocolError, match="the body is not a JSON object"):
        load_object(b"[]")
