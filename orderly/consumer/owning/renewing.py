"""Renewing the broker's lock of queues, and what follows when it is refused, or nobody answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError, RemotingError, RequestTimeout
from orderly.ordering.calls import LockQueues
from orderly.ordering.drop import Drop

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


def renew_now(session: Session, *holds: Held) -> None:
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


def _worth_asking(session: Session, holds: Sequence[Held], since: float) -> bool:
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
