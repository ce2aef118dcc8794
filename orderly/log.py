"""Structured events. The library emits them; it never configures logging.

With structlog configured by the application, events go through its processors. Without, they go
to the standard library's logger of the same name, so that importing `orderly` prints nothing.

structlog is imported at the first event: it brings rich along where that is installed, which
would take half of the time of a cold `orderly backlog check`.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from functools import cached_property
from typing import Any

from orderly.model import MessageQueue, ReceivedMessage

QUEUE_FIELDS = ("group", "topic", "broker", "queue_id", "offset", "key", "attempt")


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
        return getattr(self._logger, attribute)

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
