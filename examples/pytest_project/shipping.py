"""The code under test: a listener that ships orders, and the service around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import orderly
from orderly import Ack, Attempt, Client, ConsumerConfig, Listener, OrderlyConsumer, Outcome, Skip

STEPS = ("created", "packed", "shipped")


class Step(TypedDict):
    """A message's body."""

    name: str


def shipping(carrier: Callable[[str, str], object]) -> Listener:
    """Make the handler.

    Args:
        carrier: told (order, step); raises OSError if it does not answer.
    """

    @orderly.listener(decode="json", on_error={KeyError: "park_key"}, on_poison="park_key")
    def ship(step: Step, attempt: Attempt) -> Outcome:
        if step["name"] not in STEPS:
            return Skip("not for us")
        carrier(str(attempt.key), step["name"])
        return Ack()

    return ship


def service(client: Client, topic: str, carrier: Callable[[str, str], object]) -> OrderlyConsumer:
    """Make the consumer; `with` starts and closes it."""
    config = ConsumerConfig(order="key", consume_from="first")
    consumer = OrderlyConsumer("shipping", shipping(carrier), client=client, config=config)
    return consumer.subscribe(topic)
