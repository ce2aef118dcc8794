"""A trace's context in the properties of a message, as the W3C writes it: traceparent, tracestate.

What a message says is a stranger's word: it becomes a link or nothing, and never an error.
"""

from __future__ import annotations

from dataclasses import replace

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from orderly.model import Message, ReceivedMessage
from orderly.producer.pending import properties_text

_W3C = TraceContextTextMapPropagator()
_SOME_ID = "0" * 32  # as long as the one the message will get


def with_context(message: Message, context: Context) -> Message:
    """Return `message` with that trace context in its properties.

    Unchanged if it has a context already, or no room for one: no message is refused because it is
    traced.
    """
    found: dict[str, str] = {}
    _W3C.inject(found, context)
    if not found or any(name in message.properties for name in _W3C.fields):
        return message
    carrying = replace(message, properties={**message.properties, **found})
    return carrying if _fits(carrying) else message


def link_to(message: ReceivedMessage) -> Link | None:
    """Return a link to the span that sent the message; None: it carries no valid context."""
    context = _W3C.extract(dict(message.properties), Context())
    sent_by = get_current_span(context).get_span_context()
    return Link(sent_by) if sent_by.is_valid else None


def _fits(message: Message) -> bool:
    try:
        properties_text(message, _SOME_ID)
    except Exception:  # noqa: BLE001 - if it is wrong in another way, the producer says so
        return False
    return True
