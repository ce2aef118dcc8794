"""A misfit is shown in the model's words: where, and what has to be there; never what is there."""

import enum
import json
from dataclasses import dataclass

import msgspec
import pydantic
import pytest

from orderly.errors import ConfigError
from orderly.listening.decoding import decoder, misfit_text
from tests.support.messages import message

SECRET = "jane@x"


class Item(pydantic.BaseModel):
    price: int


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    id: int
    amount: int = pydantic.Field(default=0, alias="amt")
    items: list[Item] = []
    marks: dict[str, int] = {}

    @pydantic.field_validator("id")
    @classmethod
    def is_known(cls, number):
        if number == 7:
            raise ValueError(f"no {SECRET}")
        return number


class Kind(enum.Enum):
    NEW = "new"


class Part(msgspec.Struct):
    price: int


class Parcel(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    amount: int = 0
    parts: list[Part] = []
    marks: dict[str, int] = {}
    kind: Kind = Kind.NEW

    def __post_init__(self):
        if self.id == 7:
            raise ValueError(f"Expected `{SECRET}`")


def shown(decode, body):
    """What is shown of a body that cannot be decoded."""
    with pytest.raises(Exception) as raised:
        decoder(decode)(message(1).changed(body=body))
    return misfit_text(raised.value, decode)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"amt": "x"}', "id: missing; amt: int_parsing"),
        (b'{"id": 1, "items": [{"price": 1}, {}]}', "items.1.price: missing"),
        (b'{"id": 1, "marks": {"jane@x": "y"}}', "marks.…: int_parsing"),
        (b'{"id": 1, "jane@x": "y"}', "…: extra_forbidden"),
        (b'{"id": 7}', "id: value_error"),
        (b'{"id', "json_invalid"),
        (b"[]", "model_type"),
        (
            json.dumps({"id": 1, "items": [{}] * 8}).encode(),
            "; ".join([*(f"items.{n}.price: missing" for n in range(5)), "3 more"]),
        ),
    ],
)
def test_of_a_pydantic_model(body, text):
    assert shown(Order, body) == text


def test_a_type_adapter_and_a_method_say_whose_names_may_be_shown():
    body = b'{"amt": "x"}'
    expected = "id: missing; amt: int_parsing"
    assert shown(pydantic.TypeAdapter(Order).validate_json, body) == expected
    assert shown(Order.model_validate_json, body) == expected


def test_without_the_model_types_alone_are_shown():
    def read(body):
        return Order.model_validate_json(body)

    assert shown(read, b'{"amt": "x"}') == "…: missing; …: int_parsing"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "Object missing required field id"),
        (b'{"id": "jane@x"}', "id: Expected int, got str"),
        (b'{"id": 1, "parts": [{"price": "jane@x"}]}', "parts[0].price: Expected int, got str"),
        (b'{"id": 1, "marks": {"jane@x": ""}}', "marks[...]: Expected int, got str"),
        (b'{"id": 1, "jane@x": ""}', "Object contains unknown field"),
        (b'{"id": 1, "a` - at `$.jane@x": ""}', "Object contains unknown field"),
        (b'{"id": 1, "kind": "jane@x"}', "kind: Invalid enum value"),
        (b'{"id": 7}', None),
        (b'{"id', "Input data was truncated"),
        (b"jane@x", "JSON is malformed: invalid character (byte 0)"),
    ],
)
def test_of_a_msgspec_struct(body, text):
    assert shown(Parcel, body) == text


def test_of_json_the_place():
    assert shown("json", b'{"jane@x') == "no JSON at character 1"


def test_of_anything_else_nothing():
    def read(body):
        raise LookupError(SECRET)

    assert shown(read, b"") is None


def test_a_model_whose_own_code_fails_shows_nothing():
    class Broken(Order):
        @classmethod
        def model_json_schema(cls, **_):
            raise RuntimeError

    assert shown(Broken, b"{}") is None


def test_a_struct_is_read():
    assert decoder(Parcel)(message(1).changed(body=b'{"id": 1}')) == Parcel(1)


def test_a_dataclass_checks_nothing_and_is_refused():
    @dataclass
    class Plain:
        id: int

    with pytest.raises(ConfigError, match="a dataclass does not check its values"):
        decoder(Plain)
