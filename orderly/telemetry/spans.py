"""What spans and metrics say of messages, and how a trace's context travels in them.

The names are those of https://opentelemetry.io/docs/specs/semconv/messaging/rocketmq/; those that
begin with "orderly" are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from orderly.message import Message
from orderly.model import MessageQueue, ReceivedMessage
from orderly.namespace import unwrap
from orderly.ordering.context import ConsumeContext
from orderly.producer.pending import properties_text

LIBRARY = "orderly"
VERSION = version("rocketmq-orderly")

PARTITION = "messaging.destination.partition.id"
MESSAGE_ID = "messaging.message.id"
ERROR = "error.type"
OUTCOME = "orderly.outcome"

Attributes = dict[str, str | int]


def partition(queue: MessageQueue) -> str:
    """A queue's name within its topic: the number alone is not unique, each broker has a 0."""
    return f"{queue.broker_name}/{queue.queue_id}"


def of_sending(message: Message, *, sharding_key: bool) -> Attributes:
    """What is known of a message before it is sent."""
    return _operation("send", message.topic) | _of_one(message, sharding_key=sharding_key)


def of_group(first: ReceivedMessage, context: ConsumeContext) -> Attributes:
    """Which topic and group a call belongs to: little enough for a metric."""
    group = unwrap(first.namespace, context.group)
    return _operation("process", first.topic) | {"messaging.consumer.group.name": group}


def of_call(
    messages: Sequence[ReceivedMessage], context: ConsumeContext, *, sharding_key: bool
) -> Attributes:
    """What is known of a call of the handler before it begins."""
    first = messages[0]
    found = of_group(first, context) | {
        PARTITION: partition(context.message_queue),
        "orderly.offset": first.queue_offset,
        "orderly.attempt": context.attempt,
    }
    if len(messages) > 1:
        return found | {"messaging.batch.message_count": len(messages)}
    return found | {MESSAGE_ID: first.message_id} | _of_one(first, sharding_key=sharding_key)


def _operation(name: str, topic: str) -> Attributes:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": name,
        "messaging.operation.type": name,
        "messaging.destination.name": topic,
    }


def _of_one(message: Message | ReceivedMessage, *, sharding_key: bool) -> Attributes:
    body = message.body if isinstance(message, Message) else message.raw_body
    found: Attributes = {"messaging.message.body.size": len(body)}
    if message.tags is not None:
        found["messaging.rocketmq.message.tag"] = message.tags
    if message.sharding_key is not None:
        found["messaging.rocketmq.message.type"] = "fifo"
        if sharding_key:
            found["messaging.rocketmq.message.group"] = str(message.sharding_key)
    return found


# --- the context, in the properties of a message --------------------------------------------------
# As the W3C writes it: traceparent, tracestate. What a message says is a stranger's word: it
# becomes a link or nothing, and never an error.


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
    try:
        carrying = replace(message, properties={**message.properties, **found})
        properties_text(carrying, _SOME_ID)
    except Exception:  # noqa: BLE001 - if it is wrong in another way, the producer says so
        return message
    return carrying


def link_to(message: ReceivedMessage) -> Link | None:
    """Return a link to the span that sent the message; None: it carries no valid context."""
    context = _W3C.extract(dict(message.properties), Context())
    sent_by = get_current_span(context).get_span_context()
    return Link(sent_by) if sent_by.is_valid else None
