"""A message's body as the value that the function gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from orderly.config.arguments import is_async
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage


class Model(Protocol):
    """A class that makes an object of a body, in pydantic's way; any BaseModel is one."""

    def model_validate_json(self, json_data: bytes, /) -> Any:
        """A class method there."""


Decode = str | Callable[[bytes], Any] | Model
"""What `decode=` takes: "json", "bytes", a pydantic model, or a function of the body."""

_BY_NAME: dict[str, Callable[[bytes], Any]] = {"json": json.loads, "bytes": bytes}


def decoder(decode: Decode | None) -> Callable[[ReceivedMessage], Any]:
    """Return what makes the function's first argument of a message.

    Args:
        decode: None: the message itself. A class with `model_validate_json` (pydantic's way) is
            given the body by that.

    Raises:
        ConfigError: an unknown name, nothing that can be called, or an async function.
    """
    if decode is None:
        return _itself
    if isinstance(decode, str) and decode in _BY_NAME:
        return partial(_decoded, _BY_NAME[decode])
    read = getattr(decode, "model_validate_json", decode)
    if not callable(read) or is_async(read):
        raise ConfigError(
            "decode must be 'json', 'bytes', a pydantic model or a plain function of the body,"
            f" not {decode!r}"
        )
    return partial(_decoded, read)


def _itself(message: ReceivedMessage) -> ReceivedMessage:
    return message


def _decoded(read: Callable[[bytes], Any], message: ReceivedMessage) -> Any:
    return read(message.body)
