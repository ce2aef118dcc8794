"""A message's body as the value that the function gets, and what may be shown where that failed.

A decoder's own text may show the body. So only what the *model* says is shown: names of its fields,
and types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache, partial
from typing import Any, Literal

from orderly.config.arguments import is_async, yields
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage

Decode = Literal["json", "bytes"] | type[Any] | Callable[[bytes], Any]
"""What `decode=` takes: "json", "bytes", a pydantic model, a msgspec Struct, or a function."""

_BY_NAME: dict[str, Callable[[bytes], Any]] = {"json": json.loads, "bytes": bytes}


def decoder(decode: Decode | None) -> Callable[[ReceivedMessage], Any]:
    """Return what makes the function's first argument of a message.

    Args:
        decode: None: the message itself. A class with `model_validate_json` (pydantic's way) is
            given the body by that, a msgspec Struct by `msgspec.json`.

    Raises:
        ConfigError: an unknown name, nothing that can be called, an async function, or a dataclass.
    """
    if decode is None:
        return _itself
    if isinstance(decode, str) and decode in _BY_NAME:
        return partial(_decoded, _BY_NAME[decode])
    if hasattr(decode, "__struct_fields__"):
        return partial(_decoded, _of_struct(decode))
    read = getattr(decode, "model_validate_json", decode)
    if not callable(read) or is_async(read) or yields(read):
        raise ConfigError(
            "decode must be 'json', 'bytes', a pydantic model, a msgspec Struct or a plain function"
            f" of the body, not {decode!r}"
        )
    if is_dataclass(read):
        raise ConfigError(
            f"decode={read!r}: a dataclass does not check its values; pass a pydantic"
            " model, a msgspec Struct, or a function such as lambda body: Order(**json.loads(body))"
        )
    return partial(_decoded, read)


def _of_struct(struct: Any) -> Callable[[bytes], Any]:
    import msgspec  # noqa: PLC0415  a program with a Struct has it

    return partial(msgspec.json.decode, type=struct)


def _itself(message: ReceivedMessage) -> ReceivedMessage:
    return message


def _decoded(read: Callable[[bytes], Any], message: ReceivedMessage) -> Any:
    return read(message.body)


# --- what may be shown of a decoder's error -------------------------------------------------------


_MOST = 5  # places of one body
_HIDDEN = "…"


def misfit_text(error: BaseException, decode: object) -> str | None:
    """Return where and how a body does not fit: "id: missing; amount: int_parsing".

    Args:
        error: what the decoder raised.
        decode: of the settings: whose names may be shown.

    Returns:
        None: nothing may be shown but the error's class.
    """
    name = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"
    try:
        if name == "pydantic_core.ValidationError":
            return _together(_of_pydantic(error, known_names(getattr(decode, "__self__", decode))))
        if name in ("msgspec.ValidationError", "msgspec.DecodeError"):
            return _of_msgspec(error)
    except Exception:  # noqa: BLE001 - a model's own code runs, and it is only about a text
        return None
    return f"no JSON at character {error.pos}" if isinstance(error, json.JSONDecodeError) else None


def _together(found: Iterable[tuple[str, str]]) -> str:
    places = [f"{place}: {kind}" if place else kind for place, kind in found]
    more = [f"{len(places) - _MOST} more"] if len(places) > _MOST else []
    return "; ".join(places[:_MOST] + more)


def _of_pydantic(error: Any, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Places and types; of a place what the model names, for a dict's key is the sender's."""
    for each in error.errors(include_input=False, include_url=False, include_context=False):
        place = [p if isinstance(p, int) or p in names else _HIDDEN for p in each["loc"]]
        yield ".".join(map(str, place)), str(each["type"])


@lru_cache(maxsize=100)
def known_names(model: object) -> frozenset[str]:
    """The names that a pydantic model, or TypeAdapter, gives to fields and to its parts."""
    schema_of = getattr(model, "model_json_schema", None) or getattr(model, "json_schema", None)
    if schema_of is None:
        return frozenset()
    return frozenset(n for alias in (True, False) for n in _names(schema_of(by_alias=alias)))


def _names(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for word, inner in schema.items():
            if word in ("properties", "$defs") and isinstance(inner, Mapping):
                yield from inner
            yield from _names(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _names(inner)


# What msgspec says without quoting the body. It quotes an unknown field and an enum's wrong value.
_PLAIN = re.compile(
    r"Expected `[^`]*`(?:, got `[^`]*`)?|Object missing required field `[^`]*`"
    r"|Object contains unknown field(?= `)|Invalid [\w ]+|Integer value out of range"
    r"|Input data was truncated|JSON is malformed: [^(]*(?:\(byte \d+\))?"
)
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")


def _of_msgspec(error: BaseException) -> str | None:
    if error.__cause__ is not None:  # the text is that of a check of the program's
        return None
    text = str(error)
    kind, place = _PLAIN.match(text), _PLACE.search(text)
    if kind is None:
        return None
    what = kind[0].replace("`", "").strip()
    if place is None or what.endswith("unknown field"):  # which may end in what looks like a place
        return what
    return f"{place[1]}: {what}" if place[1] else what
