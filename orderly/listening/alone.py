"""A listener alone, in a test: a message as if it had been received, and a call's context."""

from __future__ import annotations

from orderly.config.arguments import check_given, check_kind, check_named_texts, check_text
from orderly.config.numbers import MAX_LANE_SUSPEND, check_count
from orderly.listening.delivery import Delivery
from orderly.model import Message, MessageQueue, ReceivedMessage
from orderly.ordering.context import ConsumeContext

Given = Message | ReceivedMessage


def alone(message: Given, attempt: int, context: ConsumeContext | None) -> Delivery:
    """Return a message as a consumer delivers it.

    Args:
        message: as received, or as a producer sends it.
        attempt: which try of it; 1: as the message says.
        context: of the call; None: as of a consumer with order="key".

    Raises:
        ConfigError: `attempt` is below 1, or an argument of another kind.
    """
    check_kind("message", message, (Message, ReceivedMessage))
    check_given("context", context, ConsumeContext)
    check_count("attempt", attempt, 1)
    given = message if isinstance(message, ReceivedMessage) else _received(message)
    if attempt > 1:
        given = given.changed(reconsume_times=attempt - 1)
    return Delivery(given, _context_of(given) if context is None else context)


def _received(message: Message) -> ReceivedMessage:
    check_text("the message's topic", message.topic)
    check_kind("the message's body", message.body, bytes, "bytes")
    check_named_texts("the message's properties", message.properties)
    properties = dict(message.properties)
    if message.sharding_key is not None:
        properties["__SHARDINGKEY"] = str(message.sharding_key)
    if message.tags is not None:
        properties["TAGS"] = message.tags
    return ReceivedMessage(
        queue=MessageQueue(message.topic, "alone", 0),
        queue_offset=0,
        body=message.body,
        properties=properties,
        message_id="alone",
        offset_message_id="alone",
        born_time=0.0,
        store_time=0.0,
        born_host="",
        store_host="",
        reconsume_times=0,
        flag=0,
        sys_flag=0,
        physical_offset=0,
        stored_size=len(message.body),
    )


def _context_of(message: ReceivedMessage) -> ConsumeContext:
    return ConsumeContext(
        message.queue,
        attempt=message.reconsume_times + 1,
        key=message.sharding_key,
        max_suspend=MAX_LANE_SUSPEND,
    )
