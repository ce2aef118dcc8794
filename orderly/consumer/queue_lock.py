"""The lock of one held queue."""

from __future__ import annotations

import threading
from collections.abc import Collection
from types import TracebackType

from orderly.ordering.lane import Batch
from orderly.ordering.owned_queue import OwnedQueue


def new_lock() -> threading.Lock:
    """Make a lock with what `threading` is now: a simulation puts its own in its place."""
    return threading.Lock()


class QueueLock:
    """A lock whose holder sees the queue as it is: with what runs have handled by then.

    A run notes in `Batch.done` what it has handled of several messages it took at once, without a
    lock; that is counted here, so nobody sees, saves or hands over less than is done.

    Args:
        owned: what the lock guards.
        stretches: the batches in work of which a part may be done. The runs change it.
    """

    __slots__ = ("_lock", "_owned", "_stretches")

    def __init__(self, owned: OwnedQueue, stretches: Collection[Batch]) -> None:
        self._lock = new_lock()
        self._owned = owned
        self._stretches = stretches

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._stretches:
            for batch in tuple(self._stretches):
                self._owned.catch_up(batch)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
