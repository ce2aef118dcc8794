"""One message in a consumer's call: what every step of the listener speaks of."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from orderly.log import key_text, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.context import ConsumeContext

Lane = tuple[MessageQueue, Hashable]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message and the context of the call it came with."""

    message: ReceivedMessage
    context: ConsumeContext

    @property
    def lane(self) -> Lane:
        """What it is ordered by, over all queues."""
        return self.context.message_queue, self.context.key

    @property
    def number(self) -> int:
        """Which try of the message this is, from 1."""
        return self.message.reconsume_times + 1

    @property
    def is_replay(self) -> bool:
        """Nothing of it counts for live traffic: it was parked, or this is a dry run."""
        return self.context.replayed or self.context.dry_run

    @property
    def at(self) -> dict[str, Any]:
        """The fields of an event about it."""
        at = where(self.context.group, self.message.queue, self.message)
        at["redact"] = self.context.redact_keys
        return at if self.context.key is None else at | {"key": key_text(self.context.key)}
