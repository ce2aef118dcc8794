"""What `redact_keys="hash"` leaves of an event: hashes instead of keys, no text of a failure.

A failure's text may quote the message ("no account of jane@example.org"), and so may the reason
that a handler gives. Its class and the places it came through say nothing of the message.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from orderly.foreign_text import hidden

NOT_SHOWN = "not shown: redact_keys"
_MAY_QUOTE = ("error", "why")  # texts of ours, which may name the event's own key
_REASONS_OF_OURS = frozenset({"queue.given_up", "queue.released", "lock.lost"})
_FOREIGN_ERRORS = frozenset(
    {"key_function.raised", "command.unreadable", "key.parked", "park.refused"}
)


def redacted(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without what its messages say.

    `key` and `keys` become hashes. An exception becomes its class and its `stack`. A `reason` that
    the program gave is not shown; other texts lose the key if they quote it.
    """
    found, name, key = dict(event), event.get("event"), event.get("key")
    error = exception_of(found.pop("exc_info", None))
    shown = NOT_SHOWN if error is None else type(error).__name__
    if "reason" in found and name not in _REASONS_OF_OURS:
        found["reason"] = shown
    if "error" in found and (error is not None or name in _FOREIGN_ERRORS):
        found["error"] = shown
    if error is not None:
        found["stack"] = places(error)
    if isinstance(key, str) and key:
        found["key"] = hidden(key)
        for field in _MAY_QUOTE:
            if isinstance(text := found.get(field), str):
                found[field] = without(text, key)
    if "keys" in found:
        found["keys"] = [each if each is None else hidden(each) for each in found["keys"]]
    return found


def without(text: str, key: str) -> str:
    """`text` with a hash wherever it quotes the key."""
    for quoted in (repr(key), key):
        text = text.replace(quoted, hidden(key))
    return text


def exception_of(exc_info: object) -> BaseException | None:
    """The exception that is meant by one of the forms that logging takes."""
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, TracebackType() | None):
            return error
    return sys.exception() if exc_info else None


def places(error: BaseException) -> str:
    """Return the files, lines and code an error and its causes came through; no text of theirs."""
    parts, seen = list[str](), set[int]()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        parts.append(f"{type(link).__name__}\n{''.join(traceback.format_tb(link.__traceback__))}")
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "".join(parts).rstrip()
