"""Renews the broker's lock of every queue held, every 20 s, one request per broker.

A dropped queue whose handler still runs is renewed too: nobody else may start it beside the
handler. (Java stops renewing at the drop and unlocks 20 s later by force.)
"""

from __future__ import annotations

from functools import partial

from orderly.consumer.owning.renewing import announce_loss, renew
from orderly.consumer.owning.side_by_side import SideBySide
from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError

LOOK_INTERVAL = 1.0  # seconds between two looks at the leases


class LockKeeper:
    """Renews leases, at all brokers side by side.

    Args:
        session: the consumer's shared state; its `renew_again` is asked where a broker is silent.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps = SideBySide(f"renewal-{session.group}")

    def renew_all(self) -> None:
        """Renew what is ours; a queue the broker leaves out of its answer is lost."""
        self.look()
        brokers = sorted({held.queue.broker_name for held in self._session.held()})
        self.steps.run({name: partial(self._renew, name) for name in brokers})

    def look(self) -> None:
        """Find the leases that have ended: handlers must know then, whoever hangs.

        Looked for again and again, by the leases' own clock: the one that timers go by stands still
        while the machine is suspended.
        """
        for held in self._session.held():
            self._look_at(held)

    def _look_at(self, held: Held) -> None:
        with held.lock:
            kept = held.owned.keeps_lock(now())
        if not kept:
            announce_loss(self._session, held, "not renewed in time")

    def _renew(self, broker_name: str) -> None:
        try:
            with self._session.locking(broker_name):
                renew(self._session, broker_name)
        except OrderlyError as error:
            self._session.log.warning("lock.not_renewed", broker=broker_name, error=str(error))
