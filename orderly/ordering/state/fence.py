"""What we have sent to the broker as a committed offset: tells our progress from others'.

The broker stores an offset whoever sends it. So before each commit the stored one is compared with
what this owner has sent: a value we never sent is somebody else's, or an operator's.
"""

from __future__ import annotations

from collections import deque

FORGOTTEN = 15.0  # seconds of commits a broker that is killed may forget (it writes every 5 s)


class Fence:
    """Not thread-safe.

    Args:
        start: the offset that was stored when the queue was taken.
        remembered: how many of our latest offsets count as ours: those of the last `FORGOTTEN`
            seconds, so that no older one that an operator sets by hand is taken for ours.

    Attributes:
        written: the newest offset that the broker acknowledged.
    """

    __slots__ = ("_sent", "written")

    def __init__(self, start: int, remembered: int = 4) -> None:
        self.written = start
        self._sent: deque[int] = deque((start,), maxlen=remembered)

    @property
    def newest(self) -> int:
        """The newest offset sent, acknowledged or not."""
        return self._sent[-1]

    def sends(self, offset: int) -> None:
        """`offset` is about to be sent: it is ours also if its answer is lost."""
        if offset != self._sent[-1]:
            self._sent.append(offset)

    def note(self, offset: int) -> None:
        """The broker acknowledged `offset`."""
        self.sends(offset)
        self.written = offset

    def explains(self, stored: int | None) -> bool:
        """True if the broker's offset is one of ours.

        An earlier one of ours is a broker that was killed and went back to what it had on its
        disk; None one that forgot all. Neither is anybody's progress.
        """
        return stored is None or stored == self.written or stored in self._sent
