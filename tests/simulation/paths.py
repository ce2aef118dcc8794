"""The paths a consumer can take, which of them a history took, and a defect that only each shows.

A path that few histories take is a hole in what is drawn; one without a defect that is caught there
and nowhere else may as well not be taken. Both make a run fail.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

from orderly.consumer.handling.stretch import Stretch
from orderly.ordering.owned_queue import OwnedQueue


@dataclass(frozen=True)
class Path:
    """One path.

    Attributes:
        name: for people.
        took: says of a world whether its history took it.
        mutation: a defect that only histories which took it can show.
    """

    name: str
    took: Callable
    mutation: str


def _happened(event):
    return lambda world: world.happened[event] > 0


def _setting(name, wanted):
    return lambda world: wanted(dict(world.scenario.settings)[name])


PATHS = (
    Path("a burst of several calls", _happened("burst"), ""),
    Path("a burst that was narrowed", _happened("narrowed"), ""),
    Path("kept and committed", _happened("kept and committed"), ""),
    Path("kept and rolled back", _happened("kept and rolled back"), ""),
    Path("kept and lost with the process", _happened("kept and lost"), ""),
    Path("coroutines", _happened("async"), ""),
    Path("coroutines cancelled", _happened("broken off by CancelledError"), ""),
    Path("a worker died", _happened("worker died"), ""),
    Path("a seek back", _happened("seek back"), ""),
    Path("a seek on", _happened("seek on"), ""),
    Path("a pause", _happened("paused"), ""),
    Path("a lease extended", _happened("extend"), ""),
    Path("a lease not extended", _happened("extend failed"), ""),
)


def taken(world):
    """The names of the paths that a world's history took."""
    return frozenset(path.name for path in PATHS if path.took(world))


@contextlib.contextmanager
def observed(world):
    """Count what happens inside the library, and changes nothing."""
    happened = world.happened
    leave, narrow, refilled = Stretch.__exit__, OwnedQueue.narrow, OwnedQueue.refilled

    def watched_leave(self, *exc_info):
        happened["burst"] += self._end > self._size
        leave(self, *exc_info)

    def watched_narrow(self, batch, kept):
        happened["narrowed"] += 1
        narrow(self, batch, kept)

    def watched_refilled(self, asked, messages, next_offset):
        happened["refilled"] += bool(messages)
        return refilled(self, asked, messages, next_offset)

    with (
        mock.patch.object(Stretch, "__exit__", watched_leave),
        mock.patch.object(OwnedQueue, "narrow", watched_narrow),
        mock.patch.object(OwnedQueue, "refilled", watched_refilled),
    ):
        yield
