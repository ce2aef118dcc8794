"""Renews the broker's lock of every queue held, every 20 s, one request per broker.

A dropped queue whose handler still runs is renewed too: nobody else may start it beside the
handler. (Java stops renewing at the drop and unlocks 20 s later by force.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from orderly.consumer.owning.renewing import announce_loss, renew
from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError
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
        # Before the lock: who waits for it here may wait for a broker that hangs.
        self._watch([held for held in self._session.held() if self._keeps(held)])
        with self._session.locking:
            ours = {held.queue: held for held in self._session.held() if self._keeps(held)}
            for queues in by_broker(tuple(ours)).values():
                self._renew([ours[queue] for queue in queues])

    def _watch(self, holds: Sequence[Held]) -> None:
        """Look again when the first lease ends: handlers must know then, whoever hangs."""
        ends_at = min((held.owned.lease.ends_at for held in holds), default=math.inf)
        if math.isfinite(ends_at):  # when broadcasting it never ends
            self._session.client.schedule.after(max(0.0, ends_at - now()), self._look)

    def _look(self) -> None:
        for held in self._session.held():
            self._keeps(held)

    def _keeps(self, held: Held) -> bool:
        with held.lock:
            kept = held.owned.keeps_lock(now())
        if not kept:
            announce_loss(self._session, held, "not renewed in time")
        return kept

    def _renew(self, holds: Sequence[Held]) -> None:
        try:
            renew(self._session, holds)
        except OrderlyError as error:
            broker = holds[0].queue.broker_name
            self._session.log.warning("lock.not_renewed", broker=broker, error=str(error))
            self._again(RETRY)
