"""Which generation of a topic an offset belongs to: a topic that is made anew counts from 0 again.

An operator deletes a topic and makes it anew while members run. The broker deletes the committed
offsets with it, but members know their positions, and those would pass over new messages. Nothing
in the protocol numbers the generations, and each sign of a new one has other causes, too: an offset
that vanished (a broker was killed before it wrote it down), a lower maximum (a log was cut, a slave
took over), an unknown topic, a lost connection. A sign is a suspicion, and leads to one question:
was the lowest message stored *after* another one that the queue had above it? In one generation
that cannot be. Without that proof the position stays what it was: to begin at the minimum for a
suspicion would repeat days.

The other message is the *landmark*. It must be of the former generation for certain, so it is one
that the queue had when its owner took it: the message below the start, or the first one pulled.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.calls import Dialogue, MinOffset, Peek, Peeked


@dataclass(frozen=True, slots=True)
class Landmark:
    """A message that a queue has, or had.

    Attributes:
        offset: queue offset.
        stored_at: when the broker stored it (milliseconds since the epoch, by its clock).
    """

    offset: int
    stored_at: int


def landmark_of(message: ReceivedMessage) -> Landmark:
    """A message as a landmark."""
    return Landmark(message.queue_offset, round(message.store_time * 1000))


def new_minimum(queue: MessageQueue, landmark: Landmark | None) -> Dialogue[int | None]:
    """Return the lowest offset of a queue whose topic was made anew; None: that is not proven.

    An empty queue that ends at or below the landmark is a new one, too, whatever emptied it: it
    gives those offsets to other messages.

    Args:
        queue: which one.
        landmark: a message of the generation in question; None: none is known, nothing is proven.

    Raises:
        OrderlyError: a call failed, the topic does not exist, or the offset was reset meanwhile.
    """
    if landmark is None:
        return None
    lowest: int = yield MinOffset(queue)
    if lowest > landmark.offset:
        return None
    peeked: Peeked = yield Peek(queue, lowest)
    if peeked.stored_at is None:
        return lowest if peeked.end <= lowest else None
    return lowest if peeked.stored_at > landmark.stored_at else None
