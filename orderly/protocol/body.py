"""Bodies: frozen dataclasses to the JSON objects of a request, an answer or a record, and back.

A field's name in JSON is the camelCase of its own, or the one given by `ext.wire("…")`. Its type
says how its value is written: str, int (64 bits), bool, float, a StrEnum, a MessageQueue, another
body, or None beside one of them; a tuple or frozenset of these is a list, a Mapping an object
keyed by text or by queue. `Annotated[type, JsonKind(…)]` is any other way; `Natural`, `QueueCount`
and `Milliseconds` are such.

What is there must have the right type. A field that is null counts as missing, since Java leaves
null fields out: it has its default then. A list or a table without one is empty, anything else is
an error. A ClassVar `also` holds what is written with a body and never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import (
    Annotated,
    Any,
    Generic,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.ext import is_demanded, wire_name
from orderly.protocol.java_json import ObjectKeyed, dumps, loads
from orderly.protocol.moments import milliseconds_of, moment_of

B = TypeVar("B", bound=Hashable)
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
K = TypeVar("K")

# An answer gives queues by their number: a few bytes can mean any number of objects.
MAX_QUEUES = 65536  # of one topic, on all brokers together
MAX_LISTED_QUEUES = 16 * MAX_QUEUES  # of all topics of one answer
MAX_ADDRESSES = 4096  # of the brokers of one answer: a client may connect to each


def check_total(total: int, limit: int, what: str) -> None:
    """Refuse an answer that lists more than `limit`; `what` names what is counted, and whose."""
    if total > limit:
        raise ProtocolError(f"{total} {what} are listed; at most {limit} are possible")


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, eq=False)
class JsonKind(Generic[T]):
    """How one kind of value is read from JSON, and written.

    Attributes:
        read: returns the value from what `loads` returns (None: it is missing) and from what an
            error calls it; raises ProtocolError.
        write: returns what `dumps` takes.
    """

    read: Callable[[Any, str], T]
    write: Callable[[Any], Any] = _same

    @overload
    def at(self, source: Mapping[str, Any], name: str) -> T: ...
    @overload
    def at(self, source: Mapping[str, Any], name: str, default: D) -> T | D: ...
    def at(self, source: Mapping[str, Any], name: str, default: Any = MISSING) -> Any:
        """Read field `name` of an object; `default` is what a missing one has."""
        value = source.get(name)
        if value is None and default is not MISSING:
            return default
        return self.read(value, f"'{name}'")


# --- whole bodies ---------------------------------------------------------------------------------


class _Field(NamedTuple):  # unpacked where it is used: large answers have 20 000 bodies
    name: str
    wire_name: str
    what: str
    demanded: bool  # missing is for its kind to judge
    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] | None  # None: as it is


def load_object(body: bytes) -> dict[str, Any]:
    """Read a body that must be one JSON object; an empty body is an empty object."""
    return as_object(loads(body), "the body") if body else {}


def read_body(cls: type[B], body: bytes) -> B:
    """Read a body of type `cls`; fields it does not know are ignored.

    Raises:
        ProtocolError: not JSON, a field is missing, or it is not of its type.
    """
    return from_json(cls, load_object(body))


def write_body(body: Hashable) -> bytes:
    """Write a body.

    Raises:
        ProtocolError: text that is not valid, or a number that JSON does not have.
    """
    return dumps(to_json(body))


def from_json(cls: type[B], value: Any, what: str = "the body", /, **given: Any) -> B:
    """Read a body from its object.

    Args:
        cls: its type.
        value: what `loads` returns.
        what: what an error calls it.
        given: fields that are not read.

    Raises:
        ProtocolError: not an object, a field is missing, or it is not of its type.
    """
    field_of = as_object(value, what).get
    for name, called, field, demanded, read, _ in _fields_of(cls):
        if name not in given:
            found = field_of(called)
            if found is not None or demanded:
                given[name] = read(found, field)
    return cls(**given)


def to_json(body: Hashable) -> dict[str, Any]:
    """Return the object of a body, its fields in their order; None is null."""
    fields = {}
    for name, called, _, _, _, write in _fields_of(type(body)):
        value = getattr(body, name)
        fields[called] = value if write is None else write(value)
    fields.update(vars(type(body)).get("also", ()))
    return fields


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its nulls."""
    return {name: value for name, value in fields.items() if value is not None}


@cache
def _fields_of(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    kinds = ((f, _kind_of(hints[f.name])) for f in fields(cls))
    return tuple(
        _Field(
            name=f.name,
            wire_name=wire_name(f),
            what=repr(wire_name(f)),
            demanded=is_demanded(f),
            read=kind.read,
            write=None if kind.write is _same else kind.write,
        )
        for f, kind in kinds
    )


def _kind_of(hint: Any) -> JsonKind[Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next(part for part in args if isinstance(part, JsonKind))
    if NoneType in args:
        return _or_none(_kind_of(next(part for part in args if part is not NoneType)))
    if origin in (tuple, frozenset):
        listed = list_of(_kind_of(args[0]))
        return listed if origin is tuple else _set_of(listed)
    if origin is Mapping:
        return (queues_to if args[0] is MessageQueue else texts_to)(_kind_of(args[1]))
    return member_of(hint) if issubclass(hint, StrEnum) else body_of(hint)


# --- kinds of plain values ------------------------------------------------------------------------


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return `value` if it is an object, else raise ProtocolError naming `what`."""
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is not a JSON object: {value!r:.80}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list | None):
        raise ProtocolError(f"{what} is not a JSON list: {value!r:.80}")
    return value or []


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ProtocolError(f"{what} is not a string: {value!r:.80}")
    return value


def _int(value: Any, what: str) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ProtocolError(f"{what} is not a 64-bit integer: {value!r:.80}")
    return value


def _natural(value: Any, what: str) -> int:
    number = _int(value, what)
    if number < 0:
        raise ProtocolError(f"{what} is {number}; at least 0 is possible")
    return number


def _queue_count(value: Any, what: str) -> int:
    count = _int(value, what)
    if not 0 <= count <= MAX_QUEUES:
        raise ProtocolError(f"{what} is {count}; 0 to {MAX_QUEUES} queues are possible")
    return count


def _bool(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"{what} is not a boolean: {value!r:.80}")
    return value


def _number(value: Any, what: str) -> float:
    if type(value) not in (int, float):
        raise ProtocolError(f"{what} is not a number: {value!r:.80}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):  # 1e999, too
        raise ProtocolError(f"{what} is a number out of range: {value!r:.80}")
    return number


def _seconds(value: Any, what: str) -> float:
    return moment_of(_int(value, what))


TEXT = JsonKind(_text)
INT = JsonKind(_int)
NATURAL = JsonKind(_natural)  # at least 0
QUEUE_COUNT = JsonKind(_queue_count)  # 0 to MAX_QUEUES
BOOL = JsonKind(_bool)
NUMBER = JsonKind(_number)  # whole or not
MILLISECONDS = JsonKind(_seconds, milliseconds_of)  # here in seconds
OBJECT = JsonKind(lambda value, what: {} if value is None else as_object(value, what))
LIST = JsonKind(_list)

Natural = Annotated[int, NATURAL]
QueueCount = Annotated[int, QUEUE_COUNT]
Milliseconds = Annotated[float, MILLISECONDS]
# Of a broker's table: as the text that asks for its next page.
Version = Annotated[
    str,
    JsonKind(
        lambda value, what: dumps(OBJECT.read(value, what)).decode(),
        lambda version: loads(version.encode()),
    ),
]


# --- kinds made of others -------------------------------------------------------------------------


def body_of(cls: type[B]) -> JsonKind[B]:
    """The kind of another body."""
    return JsonKind(partial(from_json, cls), to_json)


def member_of(cls: type[E]) -> JsonKind[E]:
    """The kind of an enum's members, by their values."""

    def read(value: Any, what: str) -> E:
        try:
            return cls(_text(value, what))
        except ValueError as error:
            raise ProtocolError(f"{what} is not a {cls.__name__}: {value!r:.80}") from error

    return JsonKind(read)


def list_of(kind: JsonKind[T]) -> JsonKind[tuple[T, ...]]:
    """The kind of lists; missing is empty."""
    read_one = kind.read

    def read(value: Any, what: str) -> tuple[T, ...]:
        entry = f"an entry of {what}"
        return tuple([read_one(item, entry) for item in _list(value, what)])

    return JsonKind(read, lambda items: list(map(kind.write, items)))


def texts_to(kind: JsonKind[T]) -> JsonKind[dict[str, T]]:
    """The kind of objects whose fields are alike; missing is empty."""

    def write(table: Mapping[str, T]) -> dict[str, Any]:
        return {key: kind.write(item) for key, item in table.items()}

    return JsonKind(partial(_table, _same, kind.read), write)


def queues_to(kind: JsonKind[T]) -> JsonKind[dict[MessageQueue, T]]:
    """The kind of what Java reads as a Map with MessageQueue keys; missing is empty."""

    def write(table: Mapping[MessageQueue, T]) -> ObjectKeyed:
        rows = ((_queue_to_json(queue), kind.write(table[queue])) for queue in sorted(table))
        return ObjectKeyed(tuple(rows))

    return JsonKind(partial(_table, _queue_from_key, kind.read), write)


def _table(
    read_key: Callable[[str], K], read: Callable[[Any, str], T], value: Any, what: str
) -> dict[K, T]:
    table = {}
    for key, item in OBJECT.read(value, what).items():
        try:
            table[read_key(key)] = read(item, "it")
        except ProtocolError as error:
            raise ProtocolError(f"{key!r:.200} in {what}: {error}") from error
    return table


def _or_none(kind: JsonKind[T]) -> JsonKind[T | None]:
    return JsonKind(
        lambda value, what: None if value is None else kind.read(value, what),
        lambda value: None if value is None else kind.write(value),
    )


def _set_of(listed: JsonKind[tuple[T, ...]]) -> JsonKind[frozenset[T]]:
    return JsonKind(
        lambda value, what: frozenset(listed.read(value, what)),
        lambda items: listed.write(sorted(items)),
    )


def _queue_from_json(value: Any, what: str) -> MessageQueue:
    field_of = as_object(value, what).get
    return MessageQueue(
        _text(field_of("topic"), "'topic'"),
        _text(field_of("brokerName"), "'brokerName'"),
        _int(field_of("queueId"), "'queueId'"),
    )


def _queue_from_key(key: str) -> MessageQueue:
    return _queue_from_json(loads(key.encode("utf-8", "surrogatepass")), "a message queue")


def _queue_to_json(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


QUEUE = JsonKind(_queue_from_json, _queue_to_json)
TEXTS = list_of(TEXT)
OBJECTS = list_of(JsonKind(as_object))
TEXT_TABLE = texts_to(TEXT)

_PLAIN: dict[Any, JsonKind[Any]] = {
    str: TEXT,
    int: INT,
    bool: BOOL,
    float: NUMBER,
    MessageQueue: QUEUE,
}
