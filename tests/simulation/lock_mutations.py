"""Defects of taking, trusting and giving back locks, as `mutations` lists them."""

from unittest import mock

from orderly.clock import now
from orderly.consumer import offsets, rebalancer, renewal
from orderly.consumer.rebalancer import Releaser
from orderly.ordering.broker_calls import LockQueues, UnlockQueues
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.ownership import commit


def trust_a_lock_for_ever(set_):
    """The lease is never checked, and a refused renewal is ignored."""
    set_(Lease, "valid", lambda self, now: True)
    set_(OwnedQueue, "drop", _drop_but_never_lost(OwnedQueue.drop))


def _drop_but_never_lost(drop):
    return lambda self, reason: False if reason is Drop.LOST else drop(self, reason)


def take_refused_queues(set_):
    """Every requested queue counts as locked."""
    lock = rebalancer.Taker._lock

    def careless(self, call, subscription):
        perform = self._session.perform

        def granted(one):
            answer = perform(one)
            return frozenset(one.queues) if isinstance(one, LockQueues) else answer

        with mock.patch.object(self._session, "perform", granted):
            return lock(self, call, subscription)

    set_(rebalancer.Taker, "_lock", careless)


def keep_the_cache_over_a_lost_lock(set_):
    """Consuming goes on after a lock was refused and later granted again (Java)."""

    def note(session, held, asked_at, *, granted):
        with held.lock:
            if granted:
                held.owned.lease.renew(asked_at)

    set_(renewal, "note_renewal", note)


def renew_from_the_answer(set_):
    """The lease is counted from the answer's arrival, and outlives the broker's."""
    set_(Lease, "renew", lambda self, asked_at: setattr(self, "_renewed_at", now() + 60.0))


def stop_renewing_what_is_leaving(set_):
    """A dropped queue's lock is not renewed while its handler still runs (Java)."""
    ours = renewal._ours

    def careless(held, moment):
        return held.owned.dropped is None and ours(held, moment)

    set_(renewal, "_ours", careless)
    set_(OwnedQueue, "keeps_lock", lambda self, now: self.dropped is not Drop.LOST)


def count_a_result_after_the_loss(set_):
    """A result that comes after the lock was lost still moves the offset, which is then saved."""
    set_(OwnedQueue, "keeps_lock", lambda self, now: True)


def save_without_the_lease(set_):
    """Offsets are saved although the lock is lost."""
    set_(OwnedQueue, "may_save", lambda self, now: True)
    set_(offsets, "renew", lambda session, broker_name: None)
    set_(offsets, "renew_now", lambda session, *holds: None)


def unlock_beside_a_handler(set_):
    """A queue counts as idle while its handler runs (Java, 20 s after the last renewal)."""
    set_(OwnedQueue, "idle", property(lambda self: True))


def unlock_without_saving(set_):
    """A hand-over does not save the offset."""

    def hand_on(queue, progress, fence, memory, *, now):
        yield UnlockQueues(queue.broker_name, (queue,))

    set_(offsets, "hand_on", hand_on)


def save_after_unlocking(set_):
    """The lock is given back first, then the offset saved (Java sends both one-way)."""

    def hand_on(queue, progress, fence, memory, *, now):
        yield UnlockQueues(queue.broker_name, (queue,))
        if progress is not None:
            yield from commit(queue, progress, fence, memory, now=now, closing=True)

    set_(offsets, "hand_on", hand_on)


def never_release(set_):
    """Queues given to another member are kept."""
    set_(Releaser, "release_idle", lambda self, deadline=0: True)


LOCK_MUTATIONS = (
    trust_a_lock_for_ever,
    take_refused_queues,
    keep_the_cache_over_a_lost_lock,
    renew_from_the_answer,
    stop_renewing_what_is_leaving,
    count_a_result_after_the_loss,
    save_without_the_lease,
    unlock_beside_a_handler,
    unlock_without_saving,
    save_after_unlocking,
    never_release,
)
