"""A message is checked when it is made, takes text, and is made of what JSON has."""

import dataclasses
import pickle

import msgspec
import pydantic
import pytest

from orderly import Message
from orderly.errors import InvalidMessage
from orderly.listening.decoding import decoder
from orderly.message import json_of
from tests.support.messages import message


class Line(pydantic.BaseModel):
    price: int = pydantic.Field(alias="p")


class Parcel(msgspec.Struct):
    id: int


@dataclasses.dataclass
class Order:
    id: int
    parcel: Parcel


def test_a_text_is_sent_as_utf_8():
    assert Message("orders", "größe").body == "größe".encode()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"topic": "a b"}, "topic"),
        ({"topic": 5}, "topic"),
        ({"topic": ""}, "topic"),
        ({"body": ""}, "body must be bytes or a str, and not empty; it is empty"),
        ({"body": 5}, "of type int"),
        ({"body": "\ud800"}, "lone surrogate"),
        ({"sharding_key": "\x01"}, "SHARDINGKEY"),
        ({"tags": "a||b"}, "one tag"),
        ({"keys": "word"}, "keys must be"),
        ({"properties": {"DELAY": "3"}}, "later"),
        ({"properties": {"TAGS": "a"}}, "RocketMQ uses"),
        ({"properties": {"a": ""}}, "non-empty"),
    ],
    ids=str,
)
def test_what_a_broker_would_refuse_fails_where_it_is_written(fields, said):
    with pytest.raises(InvalidMessage, match=said):
        Message(**{"topic": "orders", "body": b"x"} | fields)


def test_it_is_a_frozen_value():
    made = Message("orders", "x", 7, "paid", ["a", "b"], {"c": "d"})
    assert made == Message("orders", b"x", 7, "paid", ("a", "b"), {"c": "d"})
    assert pickle.loads(pickle.dumps(made)) == made
    assert dataclasses.replace(made, body="y").body == b"y"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.topic = "others"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, "ü", None]}, '{"a":[1,"ü",null]}'),
        (Line(p=3), '{"p":3}'),
        (Parcel(3), '{"id":3}'),
        (Order(1, Parcel(2)), '{"id":1,"parcel":{"id":2}}'),
        ([Line(p=3), {"of": Parcel(1)}], '[{"p":3},{"of":{"id":1}}]'),
        (None, "null"),
    ],
    ids=repr,
)
def test_what_json_has_and_models_are_written(value, text):
    made = Message.of_json("orders", value, "k", tags="paid")
    assert (made.body.decode(), made.sharding_key, made.tags) == (text, "k", "paid")


@pytest.mark.parametrize("model", [Line(p=3), Parcel(3)])
def test_a_listener_reads_what_was_written(model):
    body = Message.of_json("orders", model).body
    assert decoder(type(model))(message(1).changed(body=body)) == model


def test_what_json_does_not_have_is_refused_and_not_shown():
    loop = []
    loop.append(loop)
    for value in (float("nan"), {"card-4111"}, object(), loop, {("a",): 1}, "\ud800", Order):
        with pytest.raises(InvalidMessage, match="cannot be written as JSON") as raised:
            json_of(value)
        assert "4111" not in str(raised.value)
