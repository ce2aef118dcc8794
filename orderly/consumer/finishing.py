"""What becomes of a batch once its handler has answered: done, suspended, parked, dead letter."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType

from orderly.clock import now
from orderly.consumer.dead_letter_sender import DeadLetterSender
from orderly.consumer.handler_caller import Called
from orderly.consumer.parking import Parker
from orderly.consumer.session import HeldQueue, Session, log_context
from orderly.errors import HandlerHung, WorkerDied
from orderly.ordering.backoff import backoff
from orderly.ordering.context import Failure
from orderly.ordering.lane import Batch
from orderly.ordering.repeats import which_attempt
from orderly.ordering.results import ALL_FINISHED, Disposition

EXPIRES = "it failed until the broker was about to delete it"
NOTHING_KNOWN: Mapping[int, Failure] = MappingProxyType({})


class Finisher:
    """Applies results. Thread-safe.

    Args:
        session: the consumer's shared state.
        ready: called when a queue has something to hand out again.
        reopened: called when there is something to pull again.

    Attributes:
        parker: parks messages.
    """

    def __init__(
        self,
        session: Session,
        ready: Callable[[HeldQueue], None],
        reopened: Callable[[HeldQueue], None],
    ) -> None:
        self.parker = Parker(session)
        self._session = session
        self._ready = ready
        self._reopened = reopened
        self._dead_letters = DeadLetterSender(session)

    def blocks(self, held: HeldQueue, batch: Batch, called: Called) -> bool:
        """Whether `finish` will ask a broker, and so take a while."""
        if called.context.names_some and called.context.parked:
            return True
        if called.effect.suspend and held.owned.last_tries:
            return True
        disposition, context = called.effect.disposition, called.context
        failed = disposition in (Disposition.PUT_BACK, Disposition.ROLLBACK)
        return failed and self._dead_letters.has_work(
            batch.messages, context, rolled_back=disposition is Disposition.ROLLBACK
        )

    def finish(self, held: HeldQueue, batch: Batch, called: Called) -> None:
        """Apply the answer; a suspended lane is woken later, without a thread meanwhile."""
        effect, context = called.effect, called.context
        if not effect.suspend and not context.names_some:  # nearly every call
            self._apply(held, batch, effect.disposition)
            return
        if isinstance(called.answer, WorkerDied | HandlerHung):
            with held.lock:
                held.owned.messages.hand_out_alone(batch)
        last_try = self._last_try(held, batch) if effect.suspend else None
        exports = self._session.config.on_expiring == "dead_letter"
        if last_try is not None and exports:
            context.rejected.setdefault(last_try, EXPIRES)
        finished = self._finished(held, batch, called)
        if context.parked:
            self.set_aside(held, batch, context.parked, finished)
            return
        left = {message.queue_offset for message in batch.messages} - finished
        failed = left - context.untried
        if effect.disposition is Disposition.PUT_BACK and finished and not failed:
            effect = ALL_FINISHED
        if last_try in failed and not exports:
            failures = {
                message.queue_offset: Failure(EXPIRES, attempts=message.reconsume_times + 1)
                for message in batch.messages
                if message.queue_offset in failed
            }
            self.set_aside(held, batch, failures, finished)
            return
        wait = self._wait(held, batch, called) if effect.suspend else None
        self._apply(
            held, batch, effect.disposition, wait, finished=finished, untried=context.untried
        )

    def _finished(self, held: HeldQueue, batch: Batch, called: Called) -> frozenset[int]:
        """Send the dead letters; returns what does not come again of a batch that failed.

        What was named done does, in a rollback: that brings back all that is in hand.
        """
        context, disposition = called.context, called.effect.disposition
        rolled_back = disposition is Disposition.ROLLBACK and not context.parked
        if disposition is not Disposition.PUT_BACK and not rolled_back and not context.parked:
            return frozenset()
        stored = self._dead_letters.send_to_dlq(
            held, batch.messages, context, rolled_back=rolled_back
        )
        return stored if rolled_back else stored | context.finished

    def _last_try(self, held: HeldQueue, batch: Batch) -> int | None:
        """Which message the broker is about to delete: where it failed it is not tried again."""
        with held.lock:
            return held.owned.last_try(batch)

    def set_aside(
        self,
        held: HeldQueue,
        batch: Batch,
        failures: Mapping[int, Failure] = NOTHING_KNOWN,
        finished: frozenset[int] = frozenset(),
    ) -> None:
        """Park all that the batch's lane has in hand; blocks. Until that is done the lane waits.

        Args:
            held: the queue.
            batch: in work.
            failures: by queue offset, what is known of messages that failed.
            finished: queue offsets that are done already.
        """
        wait = self.parker.park(held, batch, failures, finished)
        untried = {message.queue_offset for message in batch.messages} - failures.keys()
        disposition = Disposition.COMMIT if wait is None else Disposition.PUT_BACK
        self._apply(held, batch, disposition, wait, finished=finished, untried=untried)

    def pass_over(self, held: HeldQueue, batch: Batch) -> None:
        """Finish a repeated send, which no handler gets.

        With what a handler keeps of its lane (manual commit) it waits for the word on that.
        """
        message = batch.messages[0]
        with held.lock:
            kept = batch.lane.messages.in_hand > 1
            held.owned.repeats.skipped += 1
        self._session.statistics.repeated(held.queue.topic, now())
        held.log.info(
            "message.repeat_skipped",
            **log_context(self._session.group, held, message, batch.key),
            first=batch.repeats,
            sent=which_attempt(message),
        )
        self._apply(held, batch, Disposition.KEEP if kept else Disposition.COMMIT)

    def _apply(
        self,
        held: HeldQueue,
        batch: Batch,
        disposition: Disposition,
        wait: float | None = None,
        *,
        finished: Collection[int] = (),
        untried: Collection[int] = (),
    ) -> None:
        with held.lock:
            wakes = held.owned.finish(
                batch, disposition, now(), finished=finished, untried=untried, wait=wait
            )
            going_on = held.owned.dropped is None
        if wakes is not None and going_on:
            self.wake_later(held, wakes)
        if wait is None:
            return
        at = log_context(self._session.group, held, batch.messages[0], batch.key)
        event = "key.suspended" if held.owned.by_key else "queue.suspended"
        held.log.info(event, **at, seconds=round(wait, 3))

    def wake_later(self, held: HeldQueue, seconds: float) -> None:
        """Have a suspended lane go on after so long, without a thread meanwhile."""
        at = now() + seconds  # and not when the timer rings: on another clock that may be too early
        self._session.client.schedule.after(seconds, partial(self._wake, held, at))

    def _wake(self, held: HeldQueue, at: float) -> None:
        with held.lock:
            held.owned.wake(at)
            needs_refill = held.owned.messages.refill_at is not None
        self._ready(held)
        if needs_refill:
            self._reopened(held)

    def _wait(self, held: HeldQueue, batch: Batch, called: Called) -> float:
        """Seconds: as the answer asks; else by key longer each time, by queue always the same."""
        config = self._session.config
        if called.wait is not None:
            return called.wait
        if not held.owned.by_key:
            return config.suspend
        failures = batch.messages[0].reconsume_times + 1
        return backoff(failures, config.suspend, config.max_suspend, random.random())  # noqa: S311
