"""Commands to the owner of parked keys, their results, and tombstones: lines in a park topic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from orderly.errors import ProtocolError
from orderly.protocol.json_values import (
    as_int,
    as_text,
    bool_in,
    list_in,
    member_in,
    natural_in,
    natural_or_none,
    text_in,
)
from orderly.protocol.parked_key import Key, as_key
from orderly.protocol.record_line import Kind, LineFormat, Unknown

PARK_VERSION = 1
COMMAND, RESULT, RELEASED = "command", "result", "released"
MAX_OUTCOMES = 200
MOST_OF_TEXT = 300  # characters of a reason, a fingerprint or an error
_MOST_OF_NAME = 200  # characters of a command's id, and of who gave it
_MAX_CONTROL = 256 * 1024  # bytes


class Verb(StrEnum):
    """What is to become of a parked key; of one that is not parked, ADD: it is to be.

    TRY and LOOK change nothing: they tell what RELEASE and ADD would come to.
    """

    RELEASE = "release"
    DROP = "drop"
    TRY = "try"
    ADD = "add"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Command:
    """What an operator wants done with a key.

    Attributes:
        id: new for each command.
        by: who asks, for people.
        at_ms: when (milliseconds since the epoch).
    """

    id: str
    verb: Verb
    key: Key
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Result:
    """How far the owner is with a command.

    Attributes:
        id: of the command.
        done: nothing more comes; else it is under way.
        settled: messages settled so far; of ADD and LOOK, that are parked now, or would be.
        failed_at: source offset of the message that was not acknowledged, or None.
        reason: why the command is not, or not wholly, carried out; None: it is.
        outcomes: of Verb.TRY: source offset, and "ok" or the failure's fingerprint; 200 at most.
    """

    id: str
    done: bool
    settled: int = 0
    failed_at: int | None = None
    reason: str | None = None
    outcomes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Released:
    """A tombstone: of this key every parked message below a source offset is settled.

    Attributes:
        token: of the owner that wrote it.
    """

    key: Key
    below: int
    token: int


Control = Command | Result | Released


def encode_control(record: Control) -> bytes:
    """Write a record.

    Raises:
        ProtocolError: over 256 KiB.
    """
    return _FORMAT.encode(record)


def decode_control(body: bytes) -> Control | Unknown:
    """Read a record; one of another version becomes Unknown.

    Raises:
        ProtocolError: not such a record, or a damaged one.
    """
    record: Control | Unknown = _FORMAT.decode(body)
    return record


def control_tag(record: Control) -> str:
    """The tag of a record's message, which is its kind."""
    return _FORMAT.kind_of(record)


def short_text(text: str) -> str:
    """Shorten a text of a handler's, to what can be written and shown on one line."""
    shown = "".join(c if c.isprintable() else " " for c in text[:MOST_OF_TEXT])
    return shown.encode("utf-8", "replace").decode()


def _command_fields(record: Command) -> dict[str, Any]:
    return {
        "id": record.id,
        "verb": record.verb,
        "key": record.key,
        "by": record.by,
        "at": record.at_ms,
    }


def _read_command(fields: dict[str, Any]) -> Command:
    return Command(
        _name(fields, "id"),
        member_in(fields, "verb", Verb),
        as_key(fields.get("key")),
        _name(fields, "by"),
        natural_in(fields, "at"),
    )


def _result_fields(record: Result) -> dict[str, Any]:
    return {
        "id": record.id,
        "done": record.done,
        "settled": record.settled,
        "failedAt": record.failed_at,
        "reason": None if record.reason is None else short_text(record.reason),
        "outcomes": [[at, short_text(told)] for at, told in record.outcomes[:MAX_OUTCOMES]],
    }


def _read_result(fields: dict[str, Any]) -> Result:
    outcomes = list_in(fields, "outcomes")
    if len(outcomes) > MAX_OUTCOMES:
        raise ProtocolError(f"{len(outcomes)} outcomes of a command; at most {MAX_OUTCOMES}")
    return Result(
        text_in(fields, "id"),
        bool_in(fields, "done"),
        natural_in(fields, "settled"),
        natural_or_none(fields, "failedAt"),
        None if fields.get("reason") is None else text_in(fields, "reason"),
        tuple(map(_outcome, outcomes)),
    )


def _outcome(value: Any) -> tuple[int, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ProtocolError(f"not an outcome of a message: {value!r:.80}")
    return as_int(value[0], "an outcome's offset"), as_text(value[1], "an outcome")


def _released_fields(record: Released) -> dict[str, Any]:
    return {"key": record.key, "below": record.below, "token": record.token}


def _read_released(fields: dict[str, Any]) -> Released:
    return Released(
        as_key(fields.get("key")), natural_in(fields, "below"), natural_in(fields, "token")
    )


def _name(fields: dict[str, Any], name: str) -> str:
    """A text that can be written again: its answer names it."""
    value = text_in(fields, name)
    if len(value) > _MOST_OF_NAME or short_text(value) != value:
        raise ProtocolError(f"{name!r} of a command is too long, or is no UTF-8")
    return value


_FORMAT = LineFormat(
    "orderly-park",
    PARK_VERSION,
    _MAX_CONTROL,
    (
        Kind(COMMAND, Command, _command_fields, _read_command),
        Kind(RESULT, Result, _result_fields, _read_result),
        Kind(RELEASED, Released, _released_fields, _read_released),
    ),
)
