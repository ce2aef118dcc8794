"""Why a held queue is given up."""

from __future__ import annotations

from enum import Enum


class Drop(Enum):
    """Why a queue is given up."""

    REVOKED = "given to another member, or unsubscribed"
    LOST = "the broker's lock was lost, or not renewed in time"
    FENCED = "the committed offset was changed by somebody else"
    RESUBSCRIBED = "the subscription changed; it is taken again with the new one"
    OFFSET_ILLEGAL = "the broker no longer has the offset, or it was reset"
    MOVED = "the offset was set by hand"
    STALLED = "it was not pulled for two minutes"
    RECREATED = "its topic was deleted and made anew"
    CLOSING = "the consumer is closing"


NOT_OURS = frozenset({Drop.LOST, Drop.FENCED, Drop.RECREATED})
"""Reasons after which the offset is no longer ours to move."""
