"""How long a queue is surely ours, as a handler may ask while it runs."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from orderly.consumer.owning.renewing import renew_now
from orderly.consumer.session import Held, Session, now
from orderly.errors import LockLost


class QueueTenure:
    """The `Tenure` of the handlers of one held queue. Thread-safe.

    Args:
        session: the consumer's shared state.
        held: the queue.
    """

    def __init__(self, session: Session, held: Held) -> None:
        self._session = session
        self._held = held

    @property
    def token(self) -> int | None:
        """The fencing token of this take-over; None with order by queue."""
        return None if self._held.memory is None else self._held.memory.fencing_token

    def generation_of(self, key: Hashable | None, replayed: bool) -> int:
        """The generation of the topic that a message of `key` is of."""
        parked = None
        if replayed:
            with self._held.lock:
                parked = self._held.owned.parking.get(key)
        if parked is not None:
            return parked.generation
        return 0 if self._held.memory is None else self._held.memory.generation

    @property
    def deadline(self) -> float:
        """Until when nobody else can own the queue (seconds, CLOCK_BOOTTIME)."""
        return self._held.owned.lease.ends_at

    @property
    def lost(self) -> threading.Event:
        """Set once the queue is no longer ours."""
        return self._held.lost

    def extend(self) -> float:
        """Renew the broker's lock now; returns the new deadline.

        Raises:
            LockLost: the queue is no longer ours.
            OrderlyError: the broker did not answer, or had not when it was last asked; `deadline`
                is what it was.
        """
        if not self._held.lost.is_set():
            renew_now(self._session, self._held)
        with self._held.lock:
            ours = self._held.owned.keeps_lock(now())
        if not ours or self._held.lost.is_set():
            raise LockLost(
                f"{self._held.queue} is no longer ours: stop, another member may be working on"
                " the same key"
            )
        return self.deadline
