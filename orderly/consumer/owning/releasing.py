"""Gives queues up: stop handing out, wait for the handlers, save the offset, unlock at once.

The lock is kept and renewed until the handlers have ended, however long that takes (Java unlocks by
force 20 s after the last renewal, beside the running handler; here only if `force_unlock_after`
says so). At the handover's deadline the offset is saved, and the log names who is waited for.
"""

from __future__ import annotations

import math

from orderly.consumer.owning.offset_saver import OffsetSaver
from orderly.consumer.owning.renewing import announce_loss
from orderly.consumer.session import Held, Session, now
from orderly.consumer.telling.places import longest_handler
from orderly.errors import OrderlyError, RemotingError
from orderly.ordering.drop import NOT_OURS, Drop

_FOR_GOOD = frozenset({Drop.REVOKED, Drop.CLOSING})
_WORTH_A_WARNING = frozenset({Drop.STALLED})


class Releaser:
    """Thread-safe.

    Args:
        session: the consumer's shared state.
        saver: saves offsets before a lock is given back.
    """

    def __init__(self, session: Session, saver: OffsetSaver) -> None:
        self._session = session
        self._saver = saver

    def drop(self, held: Held, reason: Drop) -> None:
        """Stop handing out; what is in hand ends."""
        with held.lock:
            changed = held.owned.drop(reason)
        if changed:
            tell = held.log.warning if reason in _WORTH_A_WARNING else held.log.info
            tell("queue.given_up", reason=reason.value)

    def drop_all(self, reason: Drop) -> None:
        """Stop handing out on every queue."""
        for held in self._session.held():
            self.drop(held, reason)

    def drop_outdated(self) -> None:
        """Give up the queues whose topic is no longer subscribed, or otherwise than they are held.

        From the drop on nothing more is taken in, so no message is filtered by the old tags once
        the new ones are set.
        """
        current = self._session.subscriptions
        for held in self._session.held():
            subscription = current.get(held.queue.topic)
            if subscription is not held.subscription:
                self.drop(held, Drop.RESUBSCRIBED if subscription else Drop.REVOKED)

    def drop_stalled(self) -> None:
        """Give up queues that have not been pulled for two minutes; they are taken anew."""
        for held in self._session.held():
            with held.lock:
                stalled = held.owned.pull_stalled(now())
            if stalled:
                self.drop(held, Drop.STALLED)

    def release_idle(self, deadline: float = math.inf) -> bool:
        """Release each dropped queue that no handler works on; returns whether none is left.

        Args:
            deadline: after it no further queue is begun (seconds, `session.now`).
        """
        self._tell_losses()
        leaving = [held for held in self._session.held() if held.owned.dropped is not None]
        silent: set[str] = set()  # brokers that did not answer: they must not hold up the others
        released = [now() < deadline and self._release(held, silent) for held in leaving]
        return all(released)

    def _tell_losses(self) -> None:
        """Tell the program at once, also while a handler still runs: it may want to stop it."""
        for held in self._session.held():
            with held.lock:
                lost = held.owned.dropped in NOT_OURS and not held.released
            if lost and not held.loss_told:
                held.loss_told = True
                announce_loss(self._session, held, "noticed late")
                self._session.hooks.tell("lost", held.log, (held.queue,))

    def _release(self, held: Held, silent: set[str]) -> bool:
        with held.lock:
            idle, reason = held.owned.idle, held.owned.dropped
        assert reason is not None, "only dropped queues are released"
        forced = not idle and reason is not Drop.LOST and self._waited_out(held, reason)
        if not idle and not forced:
            return False
        if held.queue.broker_name in silent and reason is not Drop.LOST:
            return False
        if forced:  # before anybody else can have it
            held.lost.set()
            self._session.interrupt(held)
        try:
            with self._session.locking:
                self._saver.hand_on(held)
                lost = not held.released  # nothing was saved, or unlocked: the lock was gone before
                self._session.remove(held)
        except OrderlyError as error:
            held.failed_releases += 1
            held.log.warning("queue.not_released", error=str(error))
            if isinstance(error, RemotingError):
                silent.add(held.queue.broker_name)
            return False
        held.log.info("queue.released", reason=reason.value)
        if not held.loss_told:
            self._session.hooks.tell("lost" if lost else "revoked", held.log, (held.queue,))
        # A queue dropped for any other reason is still ours by allocation: take it again.
        return reason in _FOR_GOOD

    def _waited_out(self, held: Held, reason: Drop) -> bool:
        """Whether to unlock beside a running handler: only if the user says so, with a warning."""
        config = self._session.config
        force_after = config.force_unlock_after if reason in _FOR_GOOD else None
        if held.left_at is None:
            held.left_at = now()
            held.log.info("queue.release_waits", **longest_handler(held))
        waited = now() - held.left_at
        if force_after is not None and waited >= force_after:
            held.log.error(
                "queue.unlocked_while_running",
                **longest_handler(held),
            )
            return True
        if not held.overdue and waited >= min(config.handover_timeout, config.lock_trust):
            held.overdue = True
            held.log.warning(
                "queue.release_overdue",
                **longest_handler(held),
            )
            self._saver.save(held)
        return False
