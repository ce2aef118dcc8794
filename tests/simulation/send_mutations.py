"""Defects of the sending side, as `mutations` lists them."""

from orderly.client import broker
from orderly.ordering.outbox import Outbox, SendVerdict
from orderly.producer import pending, sender


def retry_behind_the_successors(set_):
    """A failed message goes behind all waiting ones, as with a retry by the caller."""

    def plan_retry(self, batch, now):
        start = now + self._rules.retry_backoff
        if start >= batch.deadline:
            return False
        self._waiting.extend(batch.entries)
        self._not_before = max(start, self._not_before)
        return True

    set_(Outbox, "_plan_retry", plan_retry)


def send_two_requests_at_once(set_):
    """The next batch does not wait for the answer to the one before."""
    refused = Outbox.refused

    def take(self, now, claim):
        if now < self._not_before:
            return None
        batch, looked_at = (self._again, 0) if self._again else self._compose(claim)
        self._again = None
        for _ in range(looked_at):
            self._waiting.popleft()
        self._in_flight = batch or self._in_flight
        return batch

    def stored(self, batch):
        self._in_flight = None
        return True

    def refused_any(self, batch, verdict, cause, now):
        if self._again is not None:
            self._waiting.extendleft(reversed(self._again.entries))
        self._in_flight, self._again = batch, None
        return refused(self, batch, verdict, cause, now)

    set_(Outbox, "take", take)
    set_(Outbox, "stored", stored)
    set_(Outbox, "refused", refused_any)


def let_successors_pass(set_):
    """A message that failed for good does not hold back later ones of its key."""

    def fail(self, batch, cause, now):
        return self._failures(batch.entries, cause, batch.attempt)

    set_(Outbox, "_fail", fail)


def hold_only_what_waits(set_):
    """A key that failed takes newly submitted messages at once."""
    set_(Outbox, "_hold_on", lambda self, lane, now: None)


def take_silence_for_success(set_):
    """A batch that was not answered counts as stored."""
    refused = sender.QueueSender._refuse

    def refuse(self, batch, error, *, sent):
        if sender.verdict_on(error, batch, sent=sent) is not SendVerdict.UNKNOWN:
            refused(self, batch, error, sent=sent)
            return
        with self._lock:
            self._outbox.stored(batch)
        stored = broker.Stored("SEND_OK", self.queue.queue_id, 0, ("0" * 32,))
        results = sender.results_of(self.queue, batch.entries, stored)
        pending.succeed(results, first_time=False)

    set_(sender.QueueSender, "_refuse", refuse)


def mix_up_the_results_of_a_batch(set_):
    """The members of a batch get each other's results."""
    results_of = sender.results_of

    def mixed(queue, entries, stored):
        results = results_of(queue, entries, stored)
        given = [result for _, result in reversed(results)]
        return [(entry, result) for (entry, _), result in zip(results, given, strict=True)]

    set_(sender, "results_of", mixed)


SEND_MUTATIONS = (
    retry_behind_the_successors,
    send_two_requests_at_once,
    let_successors_pass,
    hold_only_what_waits,
    take_silence_for_success,
    mix_up_the_results_of_a_batch,
)
