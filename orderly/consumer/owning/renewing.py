"""Renewing the broker's lock of queues, and what follows when it is refused."""

from __future__ import annotations

from collections.abc import Sequence

from orderly.consumer.session import Held, Session, now
from orderly.ordering.calls import LockQueues
from orderly.ordering.drop import Drop


def renew(session: Session, holds: Sequence[Held]) -> None:
    """Renew the locks of some queues of one broker with one request; what is refused is lost.

    The caller holds `session.locking`. Of a queue that was given up, or lost, meanwhile the lock is
    not asked for again.

    Raises:
        OrderlyError: no answer. Nothing changes until the trust runs out: the lock may be ours.
    """
    asked_at = now()
    ours = {held.queue: held for held in holds if _ours(held, asked_at)}
    if not ours:
        return
    queues = tuple(ours)
    granted = session.perform(LockQueues(queues[0].broker_name, queues))
    for queue, held in ours.items():
        note_renewal(session, held, asked_at, granted=queue in granted)


def _ours(held: Held, moment: float) -> bool:
    with held.lock:
        return held.owned.keeps_lock(moment) and not held.released


def note_renewal(session: Session, held: Held, asked_at: float, *, granted: bool) -> None:
    """Take in a broker's answer to a request that was sent at `asked_at` (seconds)."""
    with held.lock:
        if granted:
            held.owned.lease.renew(asked_at)
        else:
            held.owned.drop(Drop.LOST)
        kept = held.owned.keeps_lock(now())
    if not kept:
        announce_loss(session, held, "it was not renewed" if granted else "another client holds it")


def announce_loss(session: Session, held: Held, reason: str) -> None:
    """Tell everybody once, and at once, that a queue is no longer ours."""
    if held.lost.is_set() or held.released:
        return
    held.lost.set()
    held.log.warning("lock.lost", reason=reason)
    session.interrupt(held)
    session.attention()
