"""Structured events. The library emits them; it never configures logging.

With structlog configured by the application, events go through its processors. Without, they go
to the standard library's logger of the same name, and to the handlers that the program has there.
Where it has none Python itself writes warnings to stderr; only the text is ours: on a terminal a
sentence (`orderly.sentences`), elsewhere `name='value'`, as for a program's own handlers.

structlog is imported at the first event that anybody may listen to: it brings rich along where
that is installed, which would take half of the time of a cold `orderly backlog check`.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Hashable, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from textwrap import indent
from typing import Any

from orderly.foreign_text import escaped
from orderly.model import MessageQueue, ReceivedMessage
from orderly.redaction import exception_of, redacted

QUEUE_FIELDS = ("group", "topic", "broker", "queue_id", "offset", "key", "attempt")
_LONGEST = 200  # characters of one field that a program, or its data, chose
_MOST = 2000  # characters of any other text: an error may quote what a server sent


def get_logger(name: str, **bound: Any) -> Any:
    """Return a bound logger called `name` ("orderly.consumer") with `bound` on every event.

    Where an event goes is decided when it is emitted, so an application may configure structlog
    before or after it imports or makes our objects. A field `redact` that is true, bound or of one
    event, is no field: it has keys hidden (see `orderly.redaction`).
    """
    return _AtFirstEvent(name, bound)


class _AtFirstEvent:
    """A logger that is made when it is first used."""

    def __init__(self, name: str, bound: dict[str, Any]) -> None:
        self._name = name
        self._bound = bound

    def bind(self, **more: Any) -> _AtFirstEvent:
        """The same logger with more fields on every event; that alone imports nothing."""
        return _AtFirstEvent(self._name, {**self._bound, **more})

    def __getattr__(self, attribute: str) -> Any:
        level = logging.getLevelNamesMapping().get(attribute.upper())
        if level is not None and not self._may_be_wanted(level):
            return _drop
        return getattr(self._logger, attribute)

    def _may_be_wanted(self, level: int) -> bool:
        """Whether an event of that level is worth the import: who configures structlog has it."""
        return "structlog" in sys.modules or logging.getLogger(self._name).isEnabledFor(level)

    @cached_property
    def _logger(self) -> Any:
        import structlog  # noqa: PLC0415  see the module's docstring

        return structlog.wrap_logger(
            logging.getLogger(self._name),
            processors=[
                _redact,
                _hand_to_application,
                structlog.stdlib.filter_by_level,
                _hand_to_standard_logging,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        ).bind(**self._bound)


def _drop(event: str, **fields: Any) -> None:
    """Nobody listens."""


def _redact(
    logger: logging.Logger,  # noqa: ARG001 - structlog's signature
    method: str,  # noqa: ARG001
    event: MutableMapping[str, Any],
) -> MutableMapping[str, Any]:
    return _cut(redacted(event) if event.pop("redact", False) else event)


def _cut(event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Long keys, after they were hashed: the hash is that of the whole key."""
    if isinstance(key := event.get("key"), str):
        event["key"] = key[:_LONGEST]
    if "keys" in event:
        event["keys"] = [each and each[:_LONGEST] for each in event["keys"]]
    return event


def _hand_to_application(
    logger: logging.Logger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Emit the event through the application's own structlog configuration, if it has one."""
    import structlog  # noqa: PLC0415  see the module's docstring

    if not structlog.is_configured():
        return event
    fields = {name: _on_one_line(name, value) for name, value in event.items()}
    text = fields.pop("event", "")
    getattr(structlog.get_logger(logger.name), method)(text, logger=logger.name, **fields)
    raise structlog.DropEvent


def _hand_to_standard_logging(
    logger: logging.Logger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Emit the event as a record of the logger; of its fields those that apply.

    The record has them as `event_fields`, too, for a handler that knows of them. `exc_text` is set:
    a standard formatter shows that in place of the exception's own text, which may be hostile.
    """
    import structlog  # noqa: PLC0415  see the module's docstring

    error = exception_of(event.pop("exc_info", None))
    named = {"event": event.pop("event", ""), **event}
    fields = {n: _on_one_line(n, value) for n, value in named.items() if value is not None}
    stack = indent(fields.pop("stack", ""), "  ") if error is None else traceback_text(error)
    raised = None if error is None else (type(error), error, error.__traceback__)
    level = (
        logging.ERROR if method == "exception" else logging.getLevelNamesMapping()[method.upper()]
    )
    record = logger.makeRecord(
        logger.name, level, __file__, 0, "", (), raised, extra={"event_fields": fields}
    )
    record.exc_text = stack.rstrip() or None
    record.msg = _line(record, fields, configured=logger.hasHandlers())
    logger.handle(record)
    raise structlog.DropEvent


def _line(record: logging.LogRecord, fields: Mapping[str, Any], *, configured: bool) -> str:
    """What the record says.

    With no handler configured Python writes it to stderr, as it is: so it has to say when, and for
    a person it is a sentence.
    """
    if configured:
        return key_values(fields)
    if is_terminal(sys.stderr):
        return for_people(record)
    at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return key_values({"time": at, "level": record.levelname.lower(), **fields})


def key_values(fields: Mapping[str, Any]) -> str:
    """Fields as `name='value'`."""
    return " ".join(f"{name}={value!r}" for name, value in fields.items())


def for_people(record: logging.LogRecord) -> str:
    """A record on a terminal: the time of day, the level, a sentence. Without its traceback."""
    from orderly.sentences import sentence  # noqa: PLC0415  only people need it

    at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")  # noqa: DTZ006  theirs
    fields = getattr(record, "event_fields", None)
    text = record.getMessage() if fields is None else sentence(fields)
    return f"{at} {record.levelname:<8} {text}"


def is_terminal(stream: object) -> bool:
    """Whether somebody looks at what is written to a stream; a closed one is none."""
    try:
        return bool(getattr(stream, "isatty", bool)())
    except ValueError:
        return False


def traceback_text(error: BaseException) -> str:
    """Return a traceback as Python writes it, but indented: no text in it begins a line of a log.

    Texts of exceptions are on one line each.
    """
    chunks = traceback.TracebackException.from_exception(error).format()
    return "\n".join(
        indent(chunk if chunk.startswith(_PYTHONS_OWN) else _shown(chunk.rstrip()), "  ").rstrip()
        for chunk in chunks
    )


_PYTHONS_OWN = ('  File "', "\n")  # places in source files, and the line between two exceptions


def without_our_frames(error: BaseException) -> BaseException:
    """Let the traceback of what the program raised begin in the program."""
    first = found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_OURS):
        found = found.tb_next
    return error if found is first or found is None else error.with_traceback(found)


_OURS = str(Path(__file__).parent)


def _on_one_line(name: str, value: Any) -> Any:
    """No text of a message acts on a terminal, or forges a line; a stack is code, and long."""
    if isinstance(value, list | tuple):
        return [_on_one_line(name, each) for each in value]
    return _shown(value) if isinstance(value, str) and name != "stack" else value


def _shown(text: str) -> str:
    """A text of others, bounded: it may be written again and again."""
    return escaped(text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)")


def where(
    group: str, queue: MessageQueue | None = None, message: ReceivedMessage | None = None
) -> dict[str, Any]:
    """The fields bound on every consumer event; what does not apply is None."""
    return {
        "group": group,
        "topic": queue.topic if queue else None,
        "broker": queue.broker_name if queue else None,
        "queue_id": queue.queue_id if queue else None,
        "offset": message.queue_offset if message else None,
        "key": message.sharding_key if message else None,
        "attempt": message.reconsume_times + 1 if message else None,
    }


def error_text(error: BaseException) -> str:
    """Type and text of an exception of the program's, for one field of an event.

    Not its repr: that of a UnicodeDecodeError shows the whole body, its text only where and why.
    """
    try:
        return f"{type(error).__name__}: {error}"[:_LONGEST]
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return type(error).__name__


def type_text(value: object) -> str:
    """What a value of the program's is, and not the value: it may be a message's body."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def key_text(key: Hashable) -> str | None:
    """A key as text: a text as it is, anything else as its repr; None stays. Events cut it."""
    if key is None or isinstance(key, str):
        return key
    try:
        return repr(key)
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return type_text(key)
