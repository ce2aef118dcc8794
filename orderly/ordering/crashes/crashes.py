"""What is on record of owners that ended without closing, and of the messages they were handling.

Two such ends without progress in between are a crash loop: the next owner runs what may be to blame
one message at a time and puts on record which. Two ends during one message condemn it.
"""

from __future__ import annotations

from dataclasses import dataclass

LOOP = 2  # ends without progress: fewer are deploys and accidents
CONDEMNS = 2  # ends while one message was handled
MOST_SUSPECTS = 1000  # on record, and tried in one crash loop before it is given up


@dataclass(frozen=True, slots=True)
class Crashes:
    """What an entry says of them.

    Attributes:
        deaths: how many owners ended without closing since the committed offset last moved; in a
            crash loop, since it began.
        suspects: (offset, how many owners ended while it was handled), rising, not finished.
        trying: the suspect that is being handled.
    """

    deaths: int = 0
    suspects: tuple[tuple[int, int], ...] = ()
    trying: int | None = None

    @property
    def looped(self) -> bool:
        """Whether this is a crash loop."""
        return self.deaths >= LOOP

    @property
    def condemned(self) -> dict[int, int]:
        """The offsets that no handler shall see again, with their deaths."""
        return {offset: deaths for offset, deaths in self.suspects if deaths >= CONDEMNS}


NO_CRASHES = Crashes()
