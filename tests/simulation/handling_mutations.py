"""Defects of starts, pulls, handlers' results and offsets, as `mutations` lists them."""

from dataclasses import replace

from orderly.consumer import rebalancer
from orderly.consumer.dead_letter_sender import DeadLetterSender
from orderly.consumer.finishing import Finisher
from orderly.consumer.puller import Puller
from orderly.errors import OrderlyError
from orderly.ordering import start
from orderly.ordering.broker_calls import (
    MaxOffset,
    MinOffset,
    QueryOffset,
    SaveOffset,
)
from orderly.ordering.lane import Lane
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.process_queue import ProcessQueue
from orderly.ordering.results import Disposition
from orderly.ordering.start import StartPosition


def commit_what_was_pulled(set_):
    """The highest offset seen is committed, finished or not."""

    def advance(self):
        self.offset = max(self.offset, self.next_pull)

    set_(OwnedQueue, "_advance", advance)


def commit_past_a_failure(set_):
    """A failed message stays behind, and the next success commits past it (a known Go defect)."""
    finish = OwnedQueue.finish

    def careless(self, batch, disposition, now, **options):
        if disposition is Disposition.PUT_BACK:
            disposition = Disposition.COMMIT
        finish(self, batch, disposition, now, **options)

    set_(OwnedQueue, "finish", careless)


def never_save(set_):
    """Offsets are not committed."""
    set_(OwnedQueue, "may_save", lambda self, now: False)


def guess_a_start(set_):
    """An offset query that fails is taken for "none stored", and the start is the end."""

    def find_start(queue, consume_from, known=None):
        try:
            stored = yield QueryOffset(queue)
        except OrderlyError:
            stored = None
        if stored is not None:
            return StartPosition(int(stored))
        computed = yield MaxOffset(queue)
        yield SaveOffset(queue, computed)
        return StartPosition(int(computed))

    set_(rebalancer, "find_start", find_start)


def start_one_further(set_):
    """The heir starts one message too late."""
    find_start = start.find_start

    def further(queue, consume_from, known=None):
        begin = yield from find_start(queue, consume_from, known)
        end = yield MaxOffset(queue)
        return replace(begin, start=begin.start + (0 < begin.start < end))

    set_(rebalancer, "find_start", further)


def run_twice(set_):
    """Each pull starts a run of its own, even if messages of the lane are in work."""
    ready = property(lambda self: self.wake_at is None and self.messages.pending > 0)
    set_(Lane, "ready", ready)
    set_(OwnedQueue, "request_run", lambda self: self.messages.ready)


def forget_the_order_of_what_is_put_back(set_):
    """Failed messages go behind those that wait."""

    def put_back(self, batch, finished=(), untried=()):
        for message in batch:
            self._in_hand.pop()
            if message.queue_offset in finished:
                self.count -= 1
                self.size -= message.held_size
            else:
                self._pending.append(message)

    set_(ProcessQueue, "put_back", put_back)


def bury_without_a_grave(set_):
    """A dead letter counts as stored although its send failed or was never made."""
    set_(DeadLetterSender, "_send", lambda *_: True)


def skip_the_first_of_a_pull(set_):
    """A pull's first message is lost."""
    pulled = OwnedQueue.pulled

    def careless(self, messages, next_offset, end=None, keys=None, **more):
        if len(messages) > 1:
            messages, keys = messages[1:], keys and keys[1:]
        return pulled(self, messages, next_offset, end, keys, **more)

    set_(OwnedQueue, "pulled", careless)


def take_in_after_the_drop(set_):
    """Pulled messages are taken in and handled although the queue is being given up."""

    def take(self, size, now, calls=1, **how):
        batch = self.messages.take(size, now, calls, **how)
        self._runs -= batch is None
        return batch

    set_(OwnedQueue, "take", take)


def forget_a_suspended_queue(set_):
    """A run that was suspended is never resumed."""
    set_(Finisher, "_wake", lambda self, held, at: None)


def start_over(set_):
    """The heir starts from the first message and ignores the committed offset."""

    def find_start(queue, consume_from, known=None):
        start = yield MinOffset(queue)
        return StartPosition(int(start))

    set_(rebalancer, "find_start", find_start)


def go_on_after_a_reset(set_):
    """When the broker reports a reset, only the next pull changes."""

    def restart_at(self, offset, reason):
        self.pulling = False
        self.next_pull = offset
        return False

    set_(OwnedQueue, "restart_at", restart_at)
    failed = Puller._failed

    def refused(self, held, reply):
        with held.lock:
            held.owned.restart_at(reply.next_offset, Drop.OFFSET_ILLEGAL)
        failed(self, held, OrderlyError("pull again"))

    set_(Puller, "_refused", refused)


def leave_a_filtered_tail_unfinished(set_):
    """Messages passed over by the filter count as done only when a later one is handled."""
    pulled = OwnedQueue.pulled

    def careless(self, messages, next_offset, end=None, keys=None, **more):
        before = self.offset
        run = pulled(self, messages, next_offset, end, keys, **more)
        if not messages:
            self.offset = before
        return run

    set_(OwnedQueue, "pulled", careless)


HANDLING_MUTATIONS = (
    commit_what_was_pulled,
    commit_past_a_failure,
    never_save,
    guess_a_start,
    start_one_further,
    run_twice,
    forget_the_order_of_what_is_put_back,
    bury_without_a_grave,
    skip_the_first_of_a_pull,
    take_in_after_the_drop,
    forget_a_suspended_queue,
    start_over,
    go_on_after_a_reset,
    leave_a_filtered_tail_unfinished,
)
