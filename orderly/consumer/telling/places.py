"""Where something happened, as the fields of an event: which message, which key, which handler.

Ordered by key, the key is the one the message is ordered by, which a key function may have chosen.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from orderly.consumer.session import Held, now
from orderly.log import key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.explain import key_of


def place(group: str, held: Held, message: ReceivedMessage, key: Hashable) -> dict[str, Any]:
    """The fields of an event about a batch.

    Args:
        group: as the broker names it.
        held: the batch's queue.
        message: of the batch.
        key: of the batch's lane.
    """
    at = where(group, held.queue, message)
    return {**at, "key": key_text(key)} if held.owned.by_key else at


def longest_handler(held: Held) -> dict[str, Any]:
    """Which handler of a queue is waited for: the message it began with, and for how long it runs.

    Of several the one that has been running longest; without any all fields are None.
    """
    with held.lock:
        busy = [lane for lane in held.owned.messages.lanes if lane.since is not None]
        lane = min(busy, key=lambda lane: lane.since or 0.0, default=None)
        if lane is None:
            return dict.fromkeys(("offset", "key", "handler_running_seconds"))
        head, key, since = lane.messages.head, key_of(held.owned, lane), lane.since
    return {
        "offset": None if head is None else head.queue_offset,
        "key": key_text(key),
        "handler_running_seconds": None if since is None else round(now() - since, 1),
    }
