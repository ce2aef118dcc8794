"""PURE: whether a message's effect is still to be had, from the one row of its key.

    the message                              verdict         the row afterwards
    token below the row's                    STALE_OWNER     as it was
    offset not above the row's               REPEAT          its token, if higher
    the same, but stored later, id unknown   RECREATED       as it was
    offset above, id among the last ones     DUPLICATE       the message's
    offset above, or no row                  APPLY           the message's

It suffices because a key's messages come in order: whatever is at or below the row's offset was
applied, and nothing above it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

# Ids a row keeps. A producer's retry is stored before the key's next message is sent, and a batch
# is stored again whole: as many as ProducerConfig.batch_messages has by default.
RECENT = 64


class Verdict(Enum):
    """What to do with a message. True only for APPLY, so `if once.apply(…):` reads as it acts."""

    APPLY = "apply"
    """The first time: have the effect."""
    REPEAT = "repeat"
    """The same stored message came again: its effect is there."""
    DUPLICATE = "duplicate"
    """Stored a second time, under a new offset, by its producer's retry: its effect is there."""
    STALE_OWNER = "stale_owner"
    """A later owner of the queue has been at work on this key."""
    RECREATED = "recreated"
    """The row tells of a queue that was deleted since; the offsets cannot be compared."""

    def __bool__(self) -> bool:
        return self is Verdict.APPLY


@dataclass(frozen=True, slots=True)
class Arrival:
    """What counts of a message.

    Attributes:
        offset: queue offset.
        token: of the queue's owner; None with order by queue.
        stored_at: milliseconds since the epoch, when the broker stored it.
        message_id: its sender's, shortened; None if it has none.
    """

    offset: int
    token: int | None
    stored_at: int
    message_id: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a key.

    Attributes:
        offset: of the last message that counted.
        token: the highest that was seen; None if none was.
        stored_at: the latest that was seen. Not always the last message's: a clock may be set back.
        recent: ids of the last messages, oldest first, at most RECENT.
    """

    offset: int
    token: int | None
    stored_at: int
    recent: tuple[str, ...] = ()


def decide(row: Row | None, arrival: Arrival) -> tuple[Verdict, Row]:
    """Return the verdict, and the row to store with the effect; equal to `row` if nothing changed.

    The row never goes back: neither its offset, nor its token, nor its time.

    Args:
        row: of the message's key; None if there is none yet.
        arrival: the message.
    """
    if row is None:
        return Verdict.APPLY, _advanced(Row(-1, None, 0), arrival, known=False)
    if arrival.token is not None and row.token is not None and arrival.token < row.token:
        return Verdict.STALE_OWNER, row
    known = arrival.message_id in row.recent
    if arrival.offset > row.offset:
        verdict = Verdict.DUPLICATE if known else Verdict.APPLY
        return verdict, _advanced(row, arrival, known=known)
    if arrival.stored_at > row.stored_at and not known:
        return Verdict.RECREATED, row
    return Verdict.REPEAT, replace(row, token=_higher(row.token, arrival.token))


def _advanced(row: Row, arrival: Arrival, *, known: bool) -> Row:
    new = () if known or arrival.message_id is None else (arrival.message_id,)
    return Row(
        arrival.offset,
        _higher(row.token, arrival.token),
        max(row.stored_at, arrival.stored_at),
        (*row.recent, *new)[-RECENT:],
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return one if other is None or (one is not None and one > other) else other
