"""JSON as brokers write it.

fastjson writes a map's non-string keys unquoted: `{0:"host:port"}` and
`{{"brokerName":"b","queueId":0,"topic":"t"}:{…}}`. Such text is read and written here.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from orderly.errors import ProtocolError

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
