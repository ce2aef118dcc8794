"""JSON as brokers write it, and the fields of its objects, checked.

fastjson writes a map's non-string keys unquoted: `{0:"host:port"}` and
`{{"brokerName":"b","queueId":0,"topic":"t"}:{…}}`. Such text is read and written here.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from orderly.errors import ProtocolError
from orderly.model import MessageQueue

MAX_JSON = 8 * 1024 * 1024  # bytes; statistics of 20 000 queues take a quarter of it
MAX_DEPTH = 64  # the deepest body known has 6 levels

_BLANK = re.compile(r"[ \t\r\n]*")
_INTEGER_KEY = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_FLAT = re.compile(r"\{[^{}\[\]]*+\}")  # no list or object in it, and no brace in its strings
_NUMBERS = re.compile(r"\{(?:-?[0-9]{1,19}:-?[0-9]{1,19}[,}])++", re.ASCII)
_canonical = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class ObjectKeyed:
    """A JSON object whose keys are objects: what Java reads as a Map with MessageQueue keys.

    Java refuses the same keys written as strings.
    """

    entries: tuple[tuple[dict[str, Any], Any], ...]


def dumps(value: Any) -> bytes:
    """Write `value` as compact JSON; an `ObjectKeyed` anywhere in it in fastjson's form.

    Raises:
        ProtocolError: text that cannot be written as UTF-8, or a number that JSON does not have.
    """
    try:
        return (_encode(value) if _is_standard(value) else _written(value)).encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("a body holds a lone surrogate; send valid text") from error
    except ValueError as error:
        raise ProtocolError(f"a body holds what JSON cannot say: {error}") from error


def _is_standard(value: Any) -> bool:
    """Whether the standard writer, which is much faster, writes the same."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_standard, value.values()))
    if isinstance(value, list):
        return all(map(_is_standard, value))
    return not isinstance(value, ObjectKeyed)


def _written(value: Any) -> str:
    if isinstance(value, ObjectKeyed):
        entries = ((_encode(key), item) for key, item in value.entries)
    elif isinstance(value, dict):
        entries = ((_encode(key), item) for key, item in value.items())
    elif isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    else:
        return _encode(value)
    return f"{{{','.join(f'{key}:{_written(item)}' for key, item in entries)}}}"


def loads(data: bytes) -> Any:
    """Read JSON, standard or fastjson's. Keys become strings.

    An integer key becomes its decimal text (`0` as `"0"`, what the standard form would hold); an
    object key becomes the text of its canonical JSON, sorted and without blanks, which `loads`
    reads again.

    Raises:
        ProtocolError: not JSON, not UTF-8, over 8 MiB, or nested deeper than 64 levels.
    """
    if len(data) > MAX_JSON:
        raise ProtocolError(f"a JSON body of {len(data)} bytes; at most {MAX_JSON} are read")
    try:
        return _loads_text(data.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a body is not JSON: {data[:80]!r}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_standard = json.JSONDecoder(parse_constant=_refuse_constant)


def _loads_text(text: str) -> Any:
    try:
        value = _standard.decode(text)
    except json.JSONDecodeError:
        value, end = _value(text, _skip_blank(text, 0), 0)
        if _skip_blank(text, end) != len(text):
            raise
        return value
    if text.count("{") + text.count("[") > MAX_DEPTH:  # fewer cannot be too deep
        _check_depth(value)
    return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    opening = text[at : at + 1]
    if opening not in ("{", "["):
        return _standard.raw_decode(text, at)
    if depth == MAX_DEPTH:
        raise ValueError("nested too deep")
    if flat := _FLAT.match(text, at):
        with contextlib.suppress(ValueError):
            return _flat(flat[0]), flat.end()
    return _object(text, at, depth) if opening == "{" else _array(text, at, depth)


def _flat(text: str) -> Any:
    """Read an object of plain values at the standard decoder's speed: most of large bodies."""
    if _NUMBERS.fullmatch(text):
        text = text.replace("{", '{"').replace(":", '":').replace(",", ',"')
    return _standard.decode(text)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    at = _skip_blank(text, at + 1)
    if text.startswith("}", at):
        return result, at + 1
    while True:
        key, at = _key(text, at)
        at = _skip_blank(text, _expect(text, ":", _skip_blank(text, at)))
        result[key], at = _value(text, at, depth + 1)
        at = _skip_blank(text, at)
        if text.startswith("}", at):
            return result, at + 1
        at = _skip_blank(text, _expect(text, ",", at))


def _key(text: str, at: int) -> tuple[str, int]:
    if bare := _INTEGER_KEY.match(text, at):
        return bare[0], bare.end()
    # An object key must itself be standard: keys of keys would double their escapes at each level.
    key, at = _standard.raw_decode(text, at)
    if isinstance(key, str):
        return key, at
    if isinstance(key, dict):
        return _canonical(key), at
    raise ValueError(f"a key that is neither string, integer nor object at character {at}")


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    result: list[Any] = []
    at = _skip_blank(text, at + 1)
    if text.startswith("]", at):
        return result, at + 1
    while True:
        value, at = _value(text, at, depth + 1)
        result.append(value)
        at = _skip_blank(text, at)
        if text.startswith("]", at):
            return result, at + 1
        at = _skip_blank(text, _expect(text, ",", at))


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _expect(text: str, mark: str, at: int) -> int:
    if not text.startswith(mark, at):
        raise ValueError(f"{mark!r} expected at character {at}")
    return at + 1


def _check_depth(value: Any) -> None:
    # The standard decoder stops only at the interpreter's limit; what it returns may still be
    # too deep to print or compare.
    level, depth = _containers([value]), 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ProtocolError(f"a JSON body is nested deeper than {MAX_DEPTH} levels")
        level = [child for node in level for child in _containers(node)]


def _containers(node: dict[str, Any] | list[Any]) -> list[Any]:
    children = node.values() if isinstance(node, dict) else node
    return [child for child in children if isinstance(child, dict | list)]


# --- fields of objects ----------------------------------------------------------------------------
# What is there must have the right type. A field that is null counts as missing, since Java leaves
# null fields out.


E = TypeVar("E", bound=StrEnum)

# An answer tells queues by their number: a few bytes of it stand for as many objects as it likes.
MAX_QUEUES = 65536  # of one topic, on all brokers together
MAX_LISTED_QUEUES = 16 * MAX_QUEUES  # of all topics of one answer
MAX_ADDRESSES = 4096  # of the brokers of one answer: a client may connect to each


def load_object(body: bytes) -> dict[str, Any]:
    """Read a body that must be one JSON object; an empty body is an empty object."""
    return as_object(loads(body), "the body") if body else {}


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return `value` if it is an object, else raise ProtocolError naming `what`."""
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is not a JSON object: {value!r:.80}")
    return value


def object_in(source: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object in field `name`; missing is empty."""
    value = source.get(name)
    return {} if value is None else as_object(value, repr(name))


def list_in(source: dict[str, Any], name: str) -> list[Any]:
    """Return the list in field `name`; missing is empty."""
    value = source.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError(f"{name!r} is not a JSON list: {value!r:.80}")
    return value


def objects_in(source: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of objects in field `name`; missing is empty."""
    return [as_object(item, f"an entry of {name!r}") for item in list_in(source, name)]


def texts_in(source: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the list of strings in field `name`; missing is empty."""
    return tuple(as_text(item, f"an entry of {name!r}") for item in list_in(source, name))


def as_text(value: Any, what: str) -> str:
    """Return `value` if it is a string, else raise ProtocolError naming `what`."""
    if not isinstance(value, str):
        raise ProtocolError(f"{what} is not a string: {value!r:.80}")
    return value


def text_in(source: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return the string in field `name`; missing is `default`, or an error without one."""
    value = source.get(name)
    return as_text(default if value is None else value, repr(name))


def member_in(source: dict[str, Any], name: str, kind: type[E]) -> E:
    """Return the member of `kind` that the string in field `name` stands for."""
    text = text_in(source, name)
    try:
        return kind(text)
    except ValueError as error:
        raise ProtocolError(f"{text!r:.80} is no {kind.__name__}") from error


def as_int(value: Any, what: str) -> int:
    """Return `value` if it is a 64-bit integer, else raise ProtocolError naming `what`."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ProtocolError(f"{what} is not a 64-bit integer: {value!r:.80}")
    return value


def int_in(source: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return the integer in field `name`; missing is `default`, or an error without one."""
    value = source.get(name)
    return as_int(default if value is None else value, repr(name))


def natural_in(source: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return the integer in field `name`, which must not be below 0; see `int_in`."""
    value = int_in(source, name, default)
    if value < 0:
        raise ProtocolError(f"{name!r} is {value}; at least 0 is possible")
    return value


def natural_or_none(source: dict[str, Any], name: str) -> int | None:
    """The same; None if it is missing."""
    return None if source.get(name) is None else natural_in(source, name)


def bool_in(source: dict[str, Any], name: str, default: bool = False) -> bool:
    """Return the boolean in field `name`; missing is `default`."""
    value = source.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ProtocolError(f"{name!r} is not a boolean: {value!r:.80}")
    return value


def number_in(source: dict[str, Any], name: str, default: float = 0.0) -> float:
    """Return the number in field `name`, whole or not; missing is `default`."""
    value = source.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise ProtocolError(f"{name!r} is not a number: {value!r:.80}")
    try:
        return float(value)
    except OverflowError as error:
        raise ProtocolError(f"{name!r} is a number out of range: {value!r:.80}") from error


def time_in(source: dict[str, Any], name: str) -> float:
    """Return the milliseconds since the epoch in field `name` as seconds; missing is 0.0."""
    return int_in(source, name, 0) / 1000


def count_in(source: dict[str, Any], name: str) -> int:
    """Return the number of queues in field `name`: 0 to MAX_QUEUES."""
    count = int_in(source, name)
    if not 0 <= count <= MAX_QUEUES:
        raise ProtocolError(f"{name!r} is {count}; 0 to {MAX_QUEUES} queues are possible")
    return count


def check_total(total: int, limit: int, what: str) -> None:
    """Refuse an answer that tells more than `limit`; `what` names what is counted, and whose."""
    if total > limit:
        raise ProtocolError(f"{total} {what} are told; at most {limit} are possible")


def data_version_in(source: dict[str, Any]) -> str:
    """Return the version of a broker's table as the text that asks for its next page."""
    return dumps(object_in(source, "dataVersion")).decode()


def queue_from_json(value: Any) -> MessageQueue:
    """Read a message queue as Java's MessageQueue is written."""
    fields = as_object(value, "a message queue")
    return MessageQueue(
        text_in(fields, "topic"), text_in(fields, "brokerName"), int_in(fields, "queueId")
    )


def queue_from_key(key: str) -> MessageQueue:
    """Read a message queue used as a key, in the text form `java_json.loads` gives it."""
    return queue_from_json(loads(key.encode("utf-8", "surrogatepass")))


def queue_to_json(queue: MessageQueue) -> dict[str, Any]:
    """Return `queue` as the object Java reads as a MessageQueue."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queue_table(table: Mapping[MessageQueue, Any]) -> ObjectKeyed:
    """Return `table` as what Java reads as a Map with MessageQueue keys, sorted by queue."""
    return ObjectKeyed(tuple((queue_to_json(queue), table[queue]) for queue in sorted(table)))


def queue_table_in(source: dict[str, Any], name: str) -> dict[MessageQueue, Any]:
    """Return the object in field `name` whose keys are message queues; missing is empty."""
    return {queue_from_key(key): value for key, value in object_in(source, name).items()}


def offset_table_in(source: dict[str, Any], name: str) -> dict[MessageQueue, int]:
    """Return the offset of each queue in field `name`; missing is empty."""
    table = queue_table_in(source, name)
    return {queue: as_int(offset, f"the offset of {queue}") for queue, offset in table.items()}
