"""The queue at a number, counted round the list: what most selectors end with."""

from __future__ import annotations

from collections.abc import Sequence

from orderly.errors import ConfigError
from orderly.model import MessageQueue


def queue_at(queues: Sequence[MessageQueue], number: int, selector: str) -> MessageQueue:
    """The queue at `number` modulo their count.

    Args:
        queues: at least one.
        number: any, below 0 too.
        selector: who asks, for the error.

    Raises:
        ConfigError: there is no queue.
    """
    try:
        return queues[number % len(queues)]
    except (TypeError, ZeroDivisionError) as error:  # a check beforehand would cost each send
        raise no_queues(queues, selector) from error


def no_queues(queues: object, selector: str) -> ConfigError:
    """The error of a selector that was given nothing to choose from."""
    shown = "an empty one" if isinstance(queues, Sequence) else type(queues).__name__
    return ConfigError(f"{selector}: queues must be a list with a MessageQueue, not {shown}")
