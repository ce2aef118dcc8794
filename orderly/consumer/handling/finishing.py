"""What becomes of a batch once its handler has answered: parked, buried, done or suspended."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType

from orderly.consumer.handling.calling import Called
from orderly.consumer.handling.dead_letters import DeadLetters
from orderly.consumer.parking.setting_aside import SettingAside
from orderly.consumer.session import Held, Session, now
from orderly.consumer.telling.places import place
from orderly.ordering.backoff import backoff
from orderly.ordering.context import Failure
from orderly.ordering.lane import Batch
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
        aside: parks messages.
    """

    def __init__(
        self,
        session: Session,
        ready: Callable[[Held], None],
        reopened: Callable[[Held], None],
    ) -> None:
        self.aside = SettingAside(session)
        self._session = session
        self._ready = ready
        self._reopened = reopened
        self._dead_letters = DeadLetters(session)

    def blocks(self, held: Held, batch: Batch, called: Called) -> bool:
        """Whether `finish` will ask a broker, and so take a while."""
        if called.context.names_some and called.context.parked:
            return True
        if called.effect.suspend and held.owned.last_tries:
            return True
        failed = called.effect.disposition is Disposition.PUT_BACK
        return failed and self._dead_letters.has_work(batch.messages, called.context)

    def finish(self, held: Held, batch: Batch, called: Called) -> None:
        """Apply the answer; a suspended lane is woken later, without a thread meanwhile."""
        effect, context = called.effect, called.context
        if not effect.suspend and not context.names_some:  # nearly every call
            self._apply(held, batch, effect.disposition)
            return
        finished: frozenset[int] = frozenset()
        last_try = self._last_try(held, batch) if effect.suspend else None
        exports = self._session.config.on_expiring == "dead_letter"
        if last_try is not None and exports:
            context.rejected.setdefault(last_try, EXPIRES)
        if effect.disposition is Disposition.PUT_BACK or context.parked:
            finished = self._dead_letters.bury(held, batch.messages, context)
        if context.parked:
            self.set_aside(held, batch, context.parked, finished)
            return
        left = {message.queue_offset for message in batch.messages} - finished
        failed = left - context.untried
        if finished and not failed:
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

    def _last_try(self, held: Held, batch: Batch) -> int | None:
        """Which message the broker is about to delete: where it failed it is not tried again."""
        with held.lock:
            return held.owned.last_try(batch)

    def set_aside(
        self,
        held: Held,
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
        wait = self.aside.park(held, batch, failures, finished)
        untried = {message.queue_offset for message in batch.messages} - failures.keys()
        disposition = Disposition.COMMIT if wait is None else Disposition.PUT_BACK
        self._apply(held, batch, disposition, wait, finished=finished, untried=untried)

    def _apply(
        self,
        held: Held,
        batch: Batch,
        disposition: Disposition,
        wait: float | None = None,
        *,
        finished: Collection[int] = (),
        untried: Collection[int] = (),
    ) -> None:
        with held.lock:
            held.owned.finish(
                batch, disposition, now(), finished=finished, untried=untried, wait=wait
            )
            going_on = held.owned.dropped is None
        if wait is None:
            return
        if going_on:
            self.wake_later(held, wait)
        at = place(self._session.group, held, batch.messages[0], batch.key)
        event = "key.suspended" if held.owned.by_key else "queue.suspended"
        held.log.info(event, **at, seconds=round(wait, 3))

    def wake_later(self, held: Held, seconds: float) -> None:
        """Have a suspended lane go on after so long, without a thread meanwhile."""
        at = now() + seconds  # and not when the timer rings: on another clock that may be too early
        self._session.client.schedule.after(seconds, partial(self._wake, held, at))

    def _wake(self, held: Held, at: float) -> None:
        with held.lock:
            held.owned.wake(at)
            hungry = held.owned.messages.hungry_at is not None
        self._ready(held)
        if hungry:
            self._reopened(held)

    def _wait(self, held: Held, batch: Batch, called: Called) -> float:
        """Seconds: as the answer asks; else by key longer each time, by queue always the same."""
        config = self._session.config
        if called.wait is not None:
            return called.wait
        if not held.owned.by_key:
            return config.suspend
        failures = batch.messages[0].reconsume_times + 1
        return backoff(failures, config.suspend, config.max_suspend, random.random())  # noqa: S311
