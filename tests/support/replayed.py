"""Handlers that `orderly parked replay` imports by their names; `calls` is what they were given."""

from orderly import Ack

calls = []


def handle(messages, context):
    """Acknowledge everything."""
    (message,) = messages
    calls.append((message.queue_offset, message.body, context.key, context.replayed, context.token))
    assert context.deadline > 0
    assert not context.lost.is_set()
    return Ack()


def fail_at_two(messages, context):
    """Fail at the second message of the tests."""
    if messages[0].body == b"two":
        raise ValueError("still bad")
    return handle(messages, context)


def forget(messages, context):
    """Acknowledge nothing."""


async def later(messages, context):
    """Cannot be called plainly."""
