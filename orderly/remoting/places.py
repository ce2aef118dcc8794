"""Who may stay connected to a small server, and who makes room for whom. Not thread-safe."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

_C = TypeVar("_C", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Limits:
    """What callers may take of a server.

    Attributes:
        at_once: connections. For one more the oldest that has not asked yet makes room.
        per_peer: connections of one address, the same way.
        asking: seconds for a request, from the connection to its last byte.
        answering: seconds for sending its answer: 25 MB to a slow scraper.
        head: bytes of a request.
    """

    at_once: int = 16
    per_peer: int = 8
    asking: float = 5.0
    answering: float = 30.0
    head: int = 16 << 10


class Stage(IntEnum):
    """What a connection is at. Who is at the lowest makes room first."""

    ASKING = 0
    READING = 1  # the answer is being sent, as fast as the caller takes it
    WORKING = 2  # the answer is being found: nothing ends that, so it keeps its place


@dataclass(slots=True)
class _Place:
    peer: str
    until: float
    stage: Stage = Stage.ASKING


class Places(Generic[_C]):
    """The places of a server's connections. Times are seconds of one clock."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._taken: dict[_C, _Place] = {}  # the oldest first

    def admit(self, connection: _C, peer: str, now: float) -> list[_C] | None:
        """Give a place to a new connection.

        Returns:
            Who lost theirs for it, at most one; None: all are at work, there is no place to be had.
        """
        leaving = self._makes_room(peer)
        if leaving is not None:
            if self._taken[leaving].stage is Stage.WORKING:
                return None
            self.leave(leaving)
        self._taken[connection] = _Place(peer, now + self._limits.asking)
        return [] if leaving is None else [leaving]

    def enter(self, connection: _C, stage: Stage, now: float) -> bool:
        """Note what a connection is at from now on; False: it has lost its place."""
        place = self._taken.get(connection)
        if place is None:
            return False
        place.stage = stage
        place.until = now + self._limits.answering if stage is Stage.READING else float("inf")
        return True

    def leave(self, connection: _C) -> None:
        """Free its place, if it has one."""
        self._taken.pop(connection, None)

    def late(self, now: float) -> list[_C]:
        """Take the places of those whose time is over, at infinity all, and return them."""
        found = [each for each, place in self._taken.items() if place.until <= now]
        for each in found:
            self.leave(each)
        return found

    def _makes_room(self, peer: str) -> _C | None:
        """Who would have to leave for one more; None: nobody."""
        own = [each for each, place in self._taken.items() if place.peer == peer]
        if len(own) >= self._limits.per_peer:
            crowd = own
        elif len(self._taken) >= self._limits.at_once:
            crowd = list(self._taken)
        else:
            return None
        return min(crowd, key=lambda each: self._taken[each].stage)
