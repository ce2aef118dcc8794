"""Gives queues up: stop handing out, wait for the handlers, save the offset, unlock at once.

The lock is kept and renewed until the handlers have ended, however long that takes (Java unlocks by
force 20 s after the last renewal, beside the running handler; here only if `force_unlock_after`
says so). At the handover's deadline the offset is saved, and the log names who is waited for.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import partial

from orderly.consumer.owning.offset_saver import OffsetSaver
from orderly.consumer.owning.renewing import announce_loss
from orderly.consumer.owning.side_by_side import SideBySide
from orderly.consumer.session import Held, Session, now
from orderly.consumer.telling.places import longest_handler
from orderly.errors import OrderlyError, RemotingError
from orderly.ordering.drop import NOT_OURS, Drop

_FOR_GOOD = frozenset({Drop.REVOKED, Drop.CLOSING})
_WORTH_A_WARNING = frozenset({Drop.STALLED})


class Releaser:
    """Gives queues up at all brokers side by side. Thread-safe.

    Args:
        session: the consumer's shared state.
        saver: saves offsets before a lock is given back.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(self, session: Session, saver: OffsetSaver) -> None:
        self._session = session
        self._saver = saver
        self.steps = SideBySide(f"release-{session.group}", session.attention)
        self._lock = threading.Lock()
        self._released: list[tuple[Held, str]] = []  # and which hook is to be told

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

        Brokers that take long go on by themselves; the rebalancer is called when one has answered.

        Args:
            deadline: after it no further queue is begun (seconds, `session.now`).
        """
        self._tell_losses()
        leaving: dict[Held, Drop] = {}
        at_brokers: dict[str, list[Held]] = {}
        for held in self._session.held():
            if held.owned.dropped is not None:
                leaving[held] = held.owned.dropped
                at_brokers.setdefault(held.queue.broker_name, []).append(held)
        steps = {
            name: partial(self._release_all, holds, deadline) for name, holds in at_brokers.items()
        }
        self.steps.run(steps)
        self.tell_released()
        # A queue dropped for any other reason is still ours by allocation: take it again.
        return all(held.released and reason in _FOR_GOOD for held, reason in leaving.items())

    def tell_released(self) -> None:
        """Tell the program what was given up, on the caller's thread."""
        with self._lock:
            released, self._released = self._released, []
        for held, hook in released:
            self._session.hooks.tell(hook, held.log, (held.queue,))

    def _release_all(self, holds: Sequence[Held], deadline: float) -> None:
        """Release queues of one broker; if that does not answer, it is not asked again."""
        silent = False
        for held in holds:
            if now() < deadline and not (silent and held.owned.dropped is not Drop.LOST):
                silent = not self._release(held) or silent

    def _tell_losses(self) -> None:
        """Tell the program at once, also while a handler still runs: it may want to stop it."""
        for held in self._session.held():
            with held.lock:
                lost = held.owned.dropped in NOT_OURS and not held.released
            if lost and held.introduced and not held.loss_told:
                held.loss_told = True
                announce_loss(self._session, held, "noticed late")
                self._session.hooks.tell("lost", held.log, (held.queue,))

    def _release(self, held: Held) -> bool:
        """Release one queue, if no handler works on it; returns whether its broker answers."""
        with held.lock:
            idle, reason = held.owned.idle, held.owned.dropped
        assert reason is not None, "only dropped queues are released"
        forced = not idle and reason is not Drop.LOST and self._waited_out(held, reason)
        if not idle and not forced:
            return True
        if forced:  # before anybody else can have it
            held.lost.set()
            self._session.interrupt(held)
        try:
            with self._session.locking(held.queue.broker_name):
                self._saver.hand_on(held)
                lost = not held.released  # nothing was saved, or unlocked: the lock was gone before
                self._session.remove(held)
        except OrderlyError as error:
            held.failed_releases += 1
            held.log.warning("queue.not_released", error=str(error))
            return not isinstance(error, RemotingError)
        held.log.info("queue.released", reason=reason.value)
        if held.introduced and not held.loss_told:
            with self._lock:
                self._released.append((held, "lost" if lost else "revoked"))
        return True

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
