"""What we have sent to the broker as a committed offset: tells our progress from others'.

The broker stores an offset whoever sends it. So before each commit the stored one is compared with
what this owner has sent: a value we never sent is somebody else's, or an operator's. A broker that
was killed is neither: it comes back with an offset that it had some seconds before.
"""

from __future__ import annotations

from collections import deque

from orderly.ordering.generation import Landmark
from orderly.protocol.state_record import MAX_WINDOW

FORGOTTEN = 15.0  # seconds of commits that a killed broker may forget: it writes them every 5 s,
# and for the first time 10 s after its start (BrokerController.initializeScheduledTasks)


class Fence:
    """Not thread-safe. `now` is seconds on any clock that never goes back.

    What was sent within FORGOTTEN seconds before the last acknowledged commit counts as ours, and
    so does the offset that was stored when that time began. The time does not go on while nothing
    is acknowledged, however long the broker stays away. At most MAX_WINDOW offsets are kept: with
    more than 34 commits a second the oldest of them count as somebody else's.

    Args:
        start: the offset that was stored when the queue was taken.
        window: what former owners sent shortly before.
        landmark: the message below `start`, if the queue has one.
        now: when the queue was taken.

    Attributes:
        written: the newest offset that the broker acknowledged.
        landmark: a message that the queue surely had when it was taken (`generation`): the one
            below the start, else the first that was pulled; None: there was none yet.
    """

    __slots__ = ("_sent", "landmark", "written")

    def __init__(
        self,
        start: int,
        window: tuple[int, ...] = (),
        landmark: Landmark | None = None,
        now: float = 0.0,
    ) -> None:
        self.written = start
        self.landmark = landmark
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

    def sends(self, offset: int, now: float) -> None:
        """`offset` is about to be sent: it is ours also if its answer is lost."""
        if offset != self.newest:
            self._sent.append((offset, now))

    def note(self, offset: int, now: float) -> None:
        """The broker acknowledged `offset`, which was sent at `now`."""
        self.sends(offset, now)
        self.written = offset
        while len(self._sent) > 1 and self._sent[1][1] <= now - FORGOTTEN:
            self._sent.popleft()

    def explains(self, stored: int | None) -> bool:
        """True if the broker's offset is one of ours.

        An earlier one of ours is a broker that was killed and went back to what it had on its
        disk; None one that forgot all. Neither is anybody's progress.
        """
        return stored is None or any(stored == offset for offset, _ in self._sent)
