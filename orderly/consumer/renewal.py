"""Renews the locks of held queues every 20 s, one request per broker, and sees when one is lost.

The rebalancer takes the locks.

A dropped queue whose handler still runs is renewed too: nobody else may start it beside the
handler. (Java stops renewing at the drop and unlocks 20 s later by force.)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Sequence
from functools import partial

from orderly.clock import now
from orderly.consumer.broker_threads import BrokerThreads
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import LockLost, OrderlyError, RemotingError, RequestTimeout
from orderly.ordering.broker_calls import LockQueues
from orderly.ordering.owned_queue import Drop


class LockKeeper:
    """Renews leases, at several brokers in parallel.

    Args:
        session: the consumer's shared state; its `renew_again` is asked where a broker is silent.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps = BrokerThreads(f"renewal-{session.group}")

    def renew_all(self) -> None:
        """Renew what is ours; a queue the broker leaves out of its answer is lost."""
        self.look()
        brokers = sorted({held.queue.broker_name for held in self._session.held()})
        self.steps.run({name: partial(self._renew, name) for name in brokers})

    def look(self) -> None:
        """Find the leases that have ended: handlers must know then, whoever hangs.

        Checked again and again, by the leases' own clock: the timers' clock stops
        while the machine is suspended.
        """
        for held in self._session.held():
            self._look_at(held)

    def _look_at(self, held: HeldQueue) -> None:
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


# --- one renewal, and what follows when it is refused, or nobody answers --------------------------


RETRY = 2.0  # seconds after a failed request; the trust outlasts several


def renew(session: Session, broker_name: str) -> None:
    """Renew the locks of all queues held at a broker with one request; what is refused is lost.

    The caller holds `session.locking(broker_name)`. Of a queue that was given up, or lost,
    meanwhile the lock is not asked for again.

    Raises:
        OrderlyError: no answer. Nothing changes until the trust runs out: the lock may be ours. A
            round of renewals tries again soon.
    """
    asked_at = now()
    at_broker = (held for held in session.held() if held.queue.broker_name == broker_name)
    ours = {held.queue: held for held in at_broker if _ours(held, asked_at)}
    if not ours:
        return
    try:
        granted = session.perform(LockQueues(broker_name, tuple(ours)))
    except OrderlyError as error:
        if isinstance(error, RemotingError):
            session.silent[broker_name] = asked_at, error
        session.renew_again(RETRY)
        raise
    for queue, held in ours.items():
        note_renewal(session, held, asked_at, granted=queue in granted)


def renew_now(session: Session, *holds: HeldQueue) -> None:
    """Renew the locks of queues of one broker, and of all others held there; blocks.

    Those who want it at the same time join: who waited for another's request that was sent
    meanwhile does not ask again. Where the last request had no answer nobody waits for a second
    one but the rounds of renewals, so that handlers do not hold up one thread after the other.

    Raises:
        OrderlyError: as for `renew`.
    """
    broker_name, begun = holds[0].queue.broker_name, now()
    if not _worth_asking(session, holds, begun):
        return
    with session.locking(broker_name):
        if _worth_asking(session, holds, begun):
            renew(session, broker_name)


def _worth_asking(session: Session, holds: Sequence[HeldQueue], since: float) -> bool:
    """Whether some are ours and nobody has asked for them since; raises if nobody would answer."""
    ours = [held.owned.lease for held in holds if _ours(held, now())]
    renewed_at = min((lease.renewed_at for lease in ours), default=math.inf)
    broker_name = holds[0].queue.broker_name
    sent_at, error = session.silent.get(broker_name, (0.0, None))
    if error is not None and sent_at > renewed_at:
        raise RequestTimeout(
            f"broker {broker_name} did not answer when its locks were last renewed ({error}); it is"
            f" asked again every {RETRY:g} s: try again later",
            error.address,
        ) from error
    return renewed_at <= since


def _ours(held: HeldQueue, moment: float) -> bool:
    with held.lock:
        return held.owned.keeps_lock(moment) and not held.released


def note_renewal(session: Session, held: HeldQueue, asked_at: float, *, granted: bool) -> None:
    """Take in a broker's answer to a request that was sent at `asked_at` (seconds)."""
    with held.lock:
        if granted:
            held.owned.lease.renew(asked_at)
        else:
            held.owned.drop(Drop.LOST)
        kept = held.owned.keeps_lock(now())
    if not kept:
        announce_loss(session, held, "it was not renewed" if granted else "another client holds it")


def announce_loss(session: Session, held: HeldQueue, reason: str) -> None:
    """Stop what runs for a queue that is no longer ours, and log it; once, and at once."""
    if held.lost.is_set() or held.released:
        return
    held.lost.set()
    held.log.warning("lock.lost", reason=reason)
    session.interrupt(held)
    session.attention()


# --- how long a queue is surely ours, as a handler may ask while it runs --------------------------


class HeldOwnership:
    """The `QueueOwnership` of the handlers of one held queue. Thread-safe.

    Args:
        session: the consumer's shared state.
        held: the queue.
    """

    def __init__(self, session: Session, held: HeldQueue) -> None:
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
            LockLost: this member no longer has the queue.
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
