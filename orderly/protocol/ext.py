"""Typed headers to the string fields of a command, and back.

A header is a frozen dataclass; a field is required on the wire unless it has a default. Its
wire name is the camelCase of its own, or the one given by `wire("…")`. The headers themselves
are in the modules of their APIs. Requests without fields (heartbeat, lock, unlock) have no header:
everything is in their body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any, TypedDict, TypeVar, get_args, get_type_hints

from orderly.errors import ProtocolError
from orderly.model import MessageQueue

H = TypeVar("H", bound=Hashable)

_SURELY_64_BITS = 19  # fewer digits than that
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def wire(name: str, *, demanded: bool = False, repeated: str = "", **options: Any) -> Any:
    """Declare a field whose wire name is `name`; `options` go to dataclasses.field.

    `demanded`: its default is not for the wire, where it must be. `repeated`: a second name under
    which it is written, too.
    """
    metadata = {"wire": name, "demanded": demanded, "repeated": repeated}
    return field(metadata=metadata, **options)


def is_demanded(declared: Field[Any]) -> bool:
    """Whether a field must be on the wire."""
    no_default = declared.default is declared.default_factory is MISSING
    return no_default or declared.metadata.get("demanded", False)


def wire_name(declared: Field[Any]) -> str:
    """The name of a field on the wire."""
    first, *rest = declared.name.split("_")
    return declared.metadata.get("wire") or first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHeader:
    """What every request about one queue says.

    A broker does not read its own name; a proxy finds the broker by it, and refuses a request
    without one (code 15; RpcRequestHeader, AbstractRemotingActivity).
    """

    topic: str
    queue_id: int
    broker_name: str | None = wire("bname", default=None)


class QueueFields(TypedDict):
    """The fields by which headers, `SendMessage` too, name their queue."""

    topic: str
    queue_id: int
    broker_name: str


def of_queue(queue: MessageQueue) -> QueueFields:
    """Name a queue in a header: `GetMaxOffset(**of_queue(queue))`."""
    return QueueFields(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    wire_name: str
    repeated: str
    required: bool
    read: Callable[[str], Any]


def to_ext(header: Hashable) -> dict[str, str]:
    """Write a header's fields as strings; fields that are None are left out."""
    return {
        name: _text(value)
        for f in _fields_of(type(header))
        if (value := getattr(header, f.name)) is not None
        for name in (f.wire_name, f.repeated)
        if name
    }


def from_ext(cls: type[H], ext: Mapping[str, str]) -> H:
    """Read a header of type `cls`; fields of `ext` it does not know are ignored.

    Raises:
        ProtocolError: a required field is missing, or a value does not read as its type.
    """
    values = {}
    for f in _fields_of(cls):
        text = ext.get(f.wire_name)
        if text is not None:
            try:
                values[f.name] = f.read(text)
            except ValueError as error:
                raise ProtocolError(
                    f"{cls.__name__}: the header field {f.wire_name!r} cannot be {text!r:.80}"
                ) from error
        elif f.required:
            raise ProtocolError(f"{cls.__name__}: the header field {f.wire_name!r} is missing")
    return cls(**values)


@cache
def _fields_of(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    return tuple(
        _Field(
            name=f.name,
            wire_name=wire_name(f),
            repeated=f.metadata.get("repeated", ""),
            required=is_demanded(f),
            read=_READERS[_plain(hints[f.name])],
        )
        for f in fields(cls)
    )


def _plain(kind: Any) -> Any:
    return next((part for part in get_args(kind) if part is not type(None)), kind)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _read_int(text: str) -> int:
    if len(text) < _SURELY_64_BITS and text.isascii() and text.isdigit():
        return int(text)
    if not _INTEGER.fullmatch(text):
        raise ValueError("not a decimal integer")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("more than 64 bits")
    return value


def _read_bool(text: str) -> bool:
    # Boolean.parseBoolean would take anything else for false
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


_READERS: dict[Any, Callable[[str], Any]] = {str: str, int: _read_int, bool: _read_bool}
