"""Renews the broker's lock of every queue held, every 20 s, one request per broker.

A dropped queue whose handler still runs is renewed too: nobody else may start it beside the
handler. (Java stops renewing at the drop and unlocks 20 s later by force.)
"""

from __future__ import annotations

from collections.abc import Callable

from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError
from orderly.ordering.calls import LockQueues
from orderly.ordering.owned_queue import Drop
from orderly.ordering.rebalance import by_broker

RETRY = 2.0  # seconds after a failed request; the trust outlasts several


class LockKeeper:
    """Renews leases; one round at a time.

    Args:
        session: the consumer's shared state.
        again: asks for another round after some seconds.
    """

    def __init__(self, session: Session, again: Callable[[float], None]) -> None:
        self._session = session
        self._again = again

    def renew_all(self) -> None:
        """Renew what is ours; a queue the broker leaves out of its answer is lost."""
        with self._session.locking:
            ours = {held.queue: held for held in self._session.held() if self._keeps(held)}
            for broker_name, queues in by_broker(tuple(ours)).items():
                self._renew(LockQueues(broker_name, queues), [ours[queue] for queue in queues])

    def _keeps(self, held: Held) -> bool:
        with held.lock:
            kept = held.owned.keeps_lock(now())
        if not kept:
            self._announce_loss(held, "not renewed in time")
        return kept

    def _renew(self, call: LockQueues, holds: list[Held]) -> None:
        asked_at = now()
        try:
            granted = self._session.perform(call)
        except OrderlyError as error:
            # Nothing changes until the trust runs out: the lock may well be ours still.
            self._session.log.warning(
                "locks not renewed", broker=call.broker_name, error=str(error)
            )
            self._again(RETRY)
            return
        for held in holds:
            self._note(held, asked_at, granted=held.queue in granted)

    def _note(self, held: Held, asked_at: float, *, granted: bool) -> None:
        with held.lock:
            if granted:
                held.owned.lease.renew(asked_at)
            lost = not granted and held.owned.drop(Drop.LOST)
        if lost:
            self._announce_loss(held, "another client holds it")

    def _announce_loss(self, held: Held, reason: str) -> None:
        if not held.loss_announced:
            held.loss_announced = True
            held.log.warning("queue lock lost", reason=reason)
        self._session.attention()
