"""What a handler takes, made by hand: for tests of handlers, and for `Listener.run`."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from orderly.config.arguments import (
    MAX_LANE_SUSPEND,
    check_count,
    check_flag,
    check_given,
    check_group,
    check_kind,
)
from orderly.listening.handler_call import Attempt, Delivery
from orderly.message import Message, stored_properties
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.context import ConsumeContext

Given = Message | ReceivedMessage
_NOTHING = Message("sample", b"-")


@dataclass(slots=True)
class SampleOwnership:
    """An ownership that a test invents: it is never lost, unless the test sets `lost`."""

    token: int | None
    lost: threading.Event = field(default_factory=threading.Event)
    deadline: float = math.inf

    def generation_of(self, key: Hashable | None, replayed: bool) -> int:  # noqa: ARG002
        """The first."""
        return 0

    def extend(self) -> float:
        """Nothing is to be renewed."""
        return self.deadline


def received(message: Given, attempt: int = 1, *, offset: int = 0) -> ReceivedMessage:
    """Return a message as a consumer gets it.

    Args:
        message: as a producer sends it; a received message stays as it is.
        attempt: the number of the try; 1: the first, or what the message says.
        offset: its place in its queue, for a message to send.

    Raises:
        ConfigError: an attempt below 1, an offset below 0, or something that is not a message.
    """
    check_kind("message", message, (Message, ReceivedMessage))
    check_count("attempt", attempt, 1)
    check_count("offset", offset, 0)
    found = message if isinstance(message, ReceivedMessage) else _received(message, offset)
    return found if attempt == 1 else found.changed(reconsume_times=attempt - 1)


def context(
    message: Given = _NOTHING,
    attempt: int = 1,
    *,
    group: str = "test",
    token: int | None = None,
    replayed: bool = False,
    dry_run: bool = False,
) -> ConsumeContext:
    """Return the context of a handler call, as from a consumer with order="key".

    Args:
        message: the first one of the call; its queue and its sharding key are the context's.
        attempt: the number of the try.
        group: the consumer group.
        token: of the queue's ownership, for code that checks it (`orderly.once`); None: there is
            none.
        replayed: whether the message was parked and is being released.
        dry_run: whether it is only tried.

    Raises:
        ConfigError: an argument of another kind.
    """
    check_group(group)
    if token is not None:
        check_count("token", token, 0)
    check_flag("replayed", replayed)
    check_flag("dry_run", dry_run)
    ownership = None if token is None else SampleOwnership(token)
    return _context(
        received(message, attempt), group, ownership, replayed=replayed, dry_run=dry_run
    )


def attempt(
    message: Given = _NOTHING,
    number: int = 1,
    *,
    group: str = "test",
    token: int | None = None,
    replayed: bool = False,
    dry_run: bool = False,
) -> Attempt:
    """Return the `attempt` that a listener's function gets with the message, or with its value.

        answer = ship({"id": 7}, attempt(Message("orders", b"{}", "order-7"), 2))

    Args:
        message: the message that is tried; it is `attempt.message`.
        number: the number of the try.
        group: as for `context`.
        token: as for `context`.
        replayed: as for `context`.
        dry_run: as for `context`.

    Raises:
        ConfigError: an argument of another kind.
    """
    check_count("number", number, 1)
    found = received(message, number)
    made = context(found, group=group, token=token, replayed=replayed, dry_run=dry_run)
    return Attempt(found, made)


def delivery_of(message: Given, number: int, given: ConsumeContext | None) -> Delivery:
    """Return a message as a consumer delivers it, with its context or one that is made.

    Raises:
        ConfigError: `number` is below 1, or an argument of another kind.
    """
    check_given("context", given, ConsumeContext)
    found = received(message, number)
    return Delivery(found, _context(found, "") if given is None else given)


def _context(
    found: ReceivedMessage,
    group: str,
    ownership: SampleOwnership | None = None,
    *,
    replayed: bool = False,
    dry_run: bool = False,
) -> ConsumeContext:
    return ConsumeContext(
        found.queue,
        group,
        attempt=found.reconsume_times + 1,
        key=found.sharding_key,
        ownership=ownership,
        max_suspend=MAX_LANE_SUSPEND,
        replayed=replayed,
        dry_run=dry_run,
    )


def _received(message: Message, offset: int) -> ReceivedMessage:
    return ReceivedMessage(
        queue=MessageQueue(message.topic, "alone", 0),
        queue_offset=offset,
        body=message.body,
        properties=stored_properties(message),
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
