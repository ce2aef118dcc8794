"""Whether a committed offset is ours, and of which generation of the topic.

The broker stores an offset whoever sends it. So before each commit the stored one is compared
with what this owner has sent: a value we never sent is somebody else's, or an operator's. A
broker that was killed is neither: it comes back with an offset that it had some seconds before.
And a topic that was deleted and made again counts from 0.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf

from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import Dialogue, MinOffset, Peek, Peeked
from orderly.protocol.state_record import MAX_WINDOW

# --- generations of a topic -----------------------------------------------------------------------
# An operator deletes a topic and makes it again while members run. The broker deletes the
# committed offsets with it, but members know their positions, and those would pass over new
# messages. Nothing in the protocol numbers the generations, and each sign of a new one has other
# causes, too: an offset that vanished (a broker was killed before it wrote it down), a lower
# maximum (a log was cut, a slave took over), an unknown topic, a lost connection. A sign is a
# suspicion, and leads to one question: is another message that the queue had no longer there, and
# was the lowest one stored *after* it? In one generation that cannot be. Without that proof the
# position stays what it was: to begin at the minimum for a suspicion would repeat days. The other
# message is the *landmark*. It must be of the former generation for certain, so it is one that the
# queue had when its owner took it: the message below the start, or the first one pulled; where a
# filter leaves out all that is pulled, the last one that it left out.


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


@dataclass(frozen=True, slots=True)
class GenerationCheck:
    """What a queue shows of a landmark.

    Attributes:
        minimum: the queue's lowest offset, if its topic was recreated; None: that is not proven.
        there: the queue has that very message, so it is of the landmark's generation.
    """

    minimum: int | None = None
    there: bool = False


def check_generation(queue: MessageQueue, landmark: Landmark | None) -> Dialogue[GenerationCheck]:
    """Compare a queue with a landmark.

    An empty queue that ends at or below the landmark is a new one, too, however it was emptied: it
    gives those offsets to other messages.

    Args:
        queue: which one.
        landmark: a message of the generation in question; None: none is known, nothing is proven.

    Raises:
        OrderlyError: a call failed, the topic does not exist, or the offset was reset meanwhile.
    """
    if landmark is None:
        return GenerationCheck()
    there: Peeked = yield Peek(queue, landmark.offset)
    if there.stored_at == landmark.stored_at:  # even if the broker's clock changed since
        return GenerationCheck(there=True)
    lowest: int = yield MinOffset(queue)
    if lowest > landmark.offset:
        return GenerationCheck()
    first: Peeked = yield Peek(queue, lowest)
    if first.stored_at is None:
        proven = first.end <= lowest
    else:
        proven = first.stored_at > landmark.stored_at
    return GenerationCheck(lowest if proven else None)


def new_minimum(queue: MessageQueue, landmark: Landmark | None) -> Dialogue[int | None]:
    """Return the lowest offset of a queue whose topic was recreated; see `check_generation`."""
    return (yield from check_generation(queue, landmark)).minimum


# --- what we have sent to the broker as a committed offset ----------------------------------------


FORGOTTEN = 15.0  # seconds of commits that a killed broker may forget: it writes them every 5 s,
# and for the first time 10 s after its start (BrokerController.initializeScheduledTasks)


class Fence:
    """Not thread-safe. `now` is seconds on any clock that never goes back.

    What was sent within FORGOTTEN seconds before the last acknowledged commit counts as ours, and
    so does the offset that was stored when that time began. The time does not go on while nothing
    is acknowledged, however long the broker stays away; and what was sent in vain meanwhile counts
    as sent with what is acknowledged next, for it may not have arrived before. At most MAX_WINDOW
    offsets are kept: with more than 34 commits a second the oldest of them count as somebody
    else's, but never the newest that was acknowledged.

    Args:
        start: the offset that was stored when the queue was taken.
        window: what former owners sent shortly before.
        landmark: the message below `start`, if the queue has one.
        now: when the queue was taken.

    Attributes:
        written: the newest offset that the broker acknowledged.
        landmark: a message that the queue surely had when it was taken (`generation`): the one
            below the start, else the first that was pulled, or the last that the filter left out;
            None: there was none yet.
        over: the topic turned out to be recreated; nothing may be committed any more.
    """

    __slots__ = ("_sent", "landmark", "over", "written")

    def __init__(
        self,
        start: int,
        window: tuple[int, ...] = (),
        landmark: Landmark | None = None,
        now: float = 0.0,
    ) -> None:
        self.written = start
        self.landmark = landmark
        self.over = False
        before = [(offset, now) for offset in window if offset != start]
        self._sent = deque([*before, (start, now)], maxlen=MAX_WINDOW)

    @property
    def newest(self) -> int:
        """The newest offset sent, acknowledged or not."""
        return self._sent[-1][0]

    @property
    def window(self) -> tuple[int, ...]:
        """The offsets that a killed broker may come back with, newest last."""
        return tuple(offset for offset, _ in self._sent)

    def sends(self, offset: int) -> None:
        """`offset` is about to be sent: it is ours also if its answer is lost."""
        if offset != self.newest:
            self._sent.append((offset, inf))

    def note(self, offset: int, now: float) -> None:
        """The broker acknowledged `offset`, which was sent at `now`."""
        self.sends(offset)
        self.written = offset
        self._sent = deque(((each, min(since, now)) for each, since in self._sent), MAX_WINDOW)
        while len(self._sent) > 1 and self._sent[1][1] <= now - FORGOTTEN:
            self._sent.popleft()

    def explains(self, stored: int | None) -> bool:
        """True if the broker's offset is one of ours.

        An earlier one of ours is a broker that was killed and went back to what it had on its
        disk; None one that forgot all. Neither is anybody's progress.
        """
        return stored is None or stored == self.written or stored in self.window
