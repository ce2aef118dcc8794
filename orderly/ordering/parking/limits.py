"""Whether one more message may be parked in a queue."""

from __future__ import annotations

from collections.abc import Hashable

from orderly.config.park_limits import ParkLimits
from orderly.ordering.parking.keys import ParkedKeys

__all__ = ["ParkLimits", "limit_reached"]


def limit_reached(
    limits: ParkLimits, parking: ParkedKeys, key: Hashable, messages: int, size: int
) -> str | None:
    """Return why messages must not be parked, for the log, or None: they may.

    Args:
        limits: the queue's share of them.
        parking: what is parked in the queue.
        key: of the messages.
        messages: how many are to be parked.
        size: their bytes.
    """
    if not parking.parked(key) and len(parking) >= limits.keys:
        return f"{len(parking)} keys of the queue are parked, its share of the limit"
    if parking.messages + messages > limits.messages:
        return _over("messages", parking.messages, messages, limits.messages)
    if parking.size + size > limits.size:
        return _over("bytes", parking.size, size, limits.size)
    return None


def _over(what: str, present: int, more: int, limit: int) -> str:
    return (
        f"{present} {what} of the queue are parked, {more} more are over its share of the limit,"
        f" {limit}"
    )
