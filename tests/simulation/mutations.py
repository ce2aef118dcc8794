"""Defects, put into the library one at a time, that the simulation must find.

Each is what a developer could get wrong, or what another client does. A mutation is a function of
`monkeypatch`-like `set(owner, name, value)`; the original is put back by whoever applied it.
"""

import contextlib
from unittest import mock

from orderly.consumer import lock_keeper, offset_saver, taking
from orderly.consumer.dead_letters import DeadLetters
from orderly.consumer.releasing import Releaser
from orderly.consumer.session import now
from orderly.consumer.worker import Worker
from orderly.errors import OrderlyError
from orderly.ordering import handover
from orderly.ordering.calls import LockQueues, MaxOffset, QueryOffset, SaveOffset, UnlockQueues
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.process_queue import ProcessQueue
from orderly.ordering.results import Disposition


def trust_a_lock_for_ever(set_):
    """The lease is never looked at, and a refused renewal is ignored."""
    set_(Lease, "valid", lambda self, now: True)
    set_(OwnedQueue, "drop", _drop_but_never_lost(OwnedQueue.drop))


def _drop_but_never_lost(drop):
    return lambda self, reason: False if reason is Drop.LOST else drop(self, reason)


def take_refused_queues(set_):
    """Whatever was asked for counts as locked."""
    take = taking.Taker._take

    def careless(self, call, subscription):
        perform = self._session.perform

        def granted(one):
            answer = perform(one)
            return frozenset(one.queues) if isinstance(one, LockQueues) else answer

        with mock.patch.object(self._session, "perform", granted):
            return take(self, call, subscription)

    set_(taking.Taker, "_take", careless)


def commit_what_was_pulled(set_):
    """The highest offset seen is committed, finished or not."""

    def advance(self):
        self.offset = max(self.offset, self.next_pull)

    set_(OwnedQueue, "_advance", advance)


def commit_past_a_failure(set_):
    """A failed message stays behind, and the next success commits past it (a known Go defect)."""
    finish = OwnedQueue.finish

    def careless(self, batch, disposition, now, finished=(), untried=()):
        if disposition is Disposition.PUT_BACK:
            disposition = Disposition.COMMIT
        finish(self, batch, disposition, now, finished, untried)

    set_(OwnedQueue, "finish", careless)


def unlock_beside_a_handler(set_):
    """A queue counts as idle while its handler runs (Java, 20 s after the last renewal)."""
    set_(OwnedQueue, "idle", property(lambda self: True))


def unlock_without_saving(set_):
    """Handing on forgets the offset."""

    def hand_on(queue, unsaved):
        yield UnlockQueues(queue.broker_name, (queue,))

    set_(offset_saver, "hand_on", hand_on)


def never_save(set_):
    """Offsets are not committed."""
    set_(OwnedQueue, "unsaved", lambda self, now: None)


def guess_a_start(set_):
    """An offset query that fails is taken for "none stored", and the start is the end."""

    def find_start(queue, consume_from):
        try:
            stored = yield QueryOffset(queue)
        except OrderlyError:
            stored = None
        if stored is not None:
            return int(stored)
        computed = yield MaxOffset(queue)
        yield SaveOffset(queue, computed)
        return int(computed)

    set_(taking, "find_start", find_start)


def start_one_further(set_):
    """The heir starts one message too far on."""
    find_start = handover.find_start

    def further(queue, consume_from):
        start = yield from find_start(queue, consume_from)
        return start + (start > 0)

    set_(taking, "find_start", further)


def keep_the_cache_over_a_lost_lock(set_):
    """A lock that was refused and later granted again: consuming goes on (Java)."""

    def note(self, held, asked_at, *, granted):
        with held.lock:
            if granted:
                held.owned.lease.renew(asked_at)

    set_(lock_keeper.LockKeeper, "_note", note)


def renew_from_the_answer(set_):
    """The lease is counted from the answer's arrival, and outlives the broker's."""
    renew = Lease.renew
    set_(Lease, "renew", lambda self, asked_at: renew(self, now() + 60.0))


def stop_renewing_what_is_leaving(set_):
    """A dropped queue's lock is not renewed while its handler still runs (Java)."""
    keeps = lock_keeper.LockKeeper._keeps

    def careless(self, held):
        return held.owned.dropped is None and keeps(self, held)

    set_(lock_keeper.LockKeeper, "_keeps", careless)
    set_(OwnedQueue, "keeps_lock", lambda self, now: self.dropped is not Drop.LOST)


def count_a_result_after_the_loss(set_):
    """A result that comes after the lock was lost still moves the offset, which is then saved."""
    set_(OwnedQueue, "keeps_lock", lambda self, now: True)


def run_twice(set_):
    """Each pull starts a run of its own."""
    set_(OwnedQueue, "request_run", lambda self: True)


def forget_the_order_of_what_is_put_back(set_):
    """Failed messages go behind those that wait."""

    def put_back(self, batch, finished=(), untried=()):
        for message in batch:
            self._in_hand.pop()
            if message.queue_offset in finished:
                self.count -= 1
                self.size -= message.stored_size
            else:
                self._pending.append(message)

    set_(ProcessQueue, "put_back", put_back)


def bury_without_a_grave(set_):
    """A dead letter counts as stored although its send failed or was never made."""
    set_(DeadLetters, "_send", lambda self, held, message, reason: True)


def skip_the_first_of_a_pull(set_):
    """A pull's first message is lost."""
    pulled = OwnedQueue.pulled

    def careless(self, messages, next_offset, end=None):
        return pulled(self, messages[1:] if len(messages) > 1 else messages, next_offset, end)

    set_(OwnedQueue, "pulled", careless)


def take_in_after_the_drop(set_):
    """What a pull brings is taken in and run although the queue is being given up."""

    def take(self, limit, now):
        batch = self.messages.take(limit)
        self._running = bool(batch)
        self.handling_since = now if batch else None
        return batch

    set_(OwnedQueue, "take", take)


def forget_a_suspended_queue(set_):
    """A run that was suspended is never resumed."""
    set_(Worker, "_later", lambda self, held, seconds: None)


def never_release(set_):
    """Queues given to another member are kept."""
    set_(Releaser, "release_idle", lambda self, deadline=0: True)


MUTATIONS = {
    function.__name__: function
    for function in (
        trust_a_lock_for_ever,
        take_refused_queues,
        commit_what_was_pulled,
        commit_past_a_failure,
        unlock_beside_a_handler,
        unlock_without_saving,
        never_save,
        guess_a_start,
        start_one_further,
        keep_the_cache_over_a_lost_lock,
        renew_from_the_answer,
        stop_renewing_what_is_leaving,
        count_a_result_after_the_loss,
        run_twice,
        forget_the_order_of_what_is_put_back,
        bury_without_a_grave,
        skip_the_first_of_a_pull,
        take_in_after_the_drop,
        forget_a_suspended_queue,
        never_release,
    )
}


@contextlib.contextmanager
def applied(name):
    """Run the library with one mutation."""
    with contextlib.ExitStack() as stack:

        def set_(owner, attribute, value):
            stack.enter_context(mock.patch.object(owner, attribute, value))

        MUTATIONS[name](set_)
        yield
