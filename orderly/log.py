"""Structured events. The library emits them; it never configures logging.

With structlog configured by the application, events go through its processors. Without, they go
to the standard library's logger of the same name, so that importing `orderly` prints nothing.

structlog is imported at the first event that anybody may listen to: it brings rich along where
that is installed, which would take half of the time of a cold `orderly backlog check`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Hashable, MutableMapping
from functools import cached_property
from typing import Any

from orderly.model import MessageQueue, ReceivedMessage

QUEUE_FIELDS = ("group", "topic", "broker", "queue_id", "offset", "key", "attempt")
_LONGEST = 200  # characters of one field that a program, or its data, chose


def get_logger(name: str, **bound: Any) -> Any:
    """Return a bound logger called `name` ("orderly.consumer") with `bound` on every event.

    Where an event goes is decided when it is emitted, so an application may configure structlog
    before or after it imports or makes our objects.
    """
    return _AtFirstEvent(name, bound)


class _AtFirstEvent:
    """A logger that is made when it is first used."""

    def __init__(self, name: str, bound: dict[str, Any]) -> None:
        self._name = name
        self._bound = bound

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
                _hand_to_application,
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        ).bind(**self._bound)


def _drop(event: str, **fields: Any) -> None:
    """Nobody listens."""


def _hand_to_application(
    logger: logging.Logger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Emit the event through the application's own structlog configuration, if it has one."""
    import structlog  # noqa: PLC0415  see the module's docstring

    if not structlog.is_configured():
        return event
    fields = dict(event)
    text = fields.pop("event", "")
    getattr(structlog.get_logger(logger.name), method)(text, logger=logger.name, **fields)
    raise structlog.DropEvent


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
    """A key for one field of an event: text as it is, anything else as its repr; None stays."""
    if key is None or isinstance(key, str):
        return key and key[:_LONGEST]
    try:
        return repr(key)[:_LONGEST]
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return type_text(key)
