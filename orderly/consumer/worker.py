"""Runs a queue's messages through the handler, one batch after another.

A run belongs to one queue; at most one run of a queue exists (`OwnedQueue.request_run`), so no
thread ever waits for another's queue. Java: ConsumeMessageOrderlyService.ConsumeRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orderly.consumer.calling import Called, Caller
from orderly.consumer.dead_letters import DeadLetters
from orderly.consumer.pool import WorkerPool
from orderly.consumer.session import Held, Session, now
from orderly.log import where
from orderly.model import ReceivedMessage
from orderly.ordering.results import ALL_FINISHED, Disposition

MAX_RUN = 60.0  # seconds a run may go on while nobody waits for its thread (as Java)
FAIR_RUN = 0.1  # seconds it may go on once another queue waits for a thread
YIELD = 0.01  # seconds until a run that yielded is resumed (as Java)


class Worker:
    """Feeds the handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, so that a full queue is pulled again.
    """

    def __init__(self, session: Session, caller: Caller, reopened: Callable[[Held], None]) -> None:
        config = session.config
        self._session = session
        self._caller = caller
        self._reopened = reopened
        self._dead_letters = DeadLetters(session)
        self.pool = WorkerPool(session.group, config.min_workers, config.max_workers)

    def submit(self, held: Held) -> None:
        """Start a run that was claimed by `request_run`."""
        self.pool.submit(partial(self._run, held))

    def submit_direct(self, held: Held, task: Callable[[], None]) -> None:
        """Have `task` run on the queue's lane: between two batches, never beside the handler."""
        held.direct.append(task)
        with held.lock:
            claimed = held.owned.request_run()
        if claimed:
            self.submit(held)

    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""
        self.pool.close()

    @property
    def inside(self) -> bool:
        """True on a thread that runs handlers."""
        return self.pool.inside

    def _run(self, held: Held) -> None:
        try:
            self._work(held)
        except BaseException:
            # Not the handler's failure but ours, or the logging's: the queue must not stand still.
            with held.lock:
                held.owned.abort()
            self._later(held, self._session.config.suspend)
            raise

    def _later(self, held: Held, seconds: float) -> None:
        # The claim on the queue is kept, so nothing else starts it meanwhile.
        self._session.client.schedule.after(seconds, partial(self.submit, held))

    def _work(self, held: Held) -> None:
        started = now()
        batch = self._take(held)
        while batch:
            wait = self._finish(held, batch, self._caller.call(held, batch))
            if wait is None and self._must_yield(started):
                wait = YIELD
            if wait is not None and held.owned.dropped is None:
                self._later(held, wait)
                return
            batch = self._take(held)
            if held.owned.wants_pull:
                self._reopened(held)
        if held.owned.dropped is not None:
            self._session.attention()
        elif held.owned.stuck_full:
            held.log.warning("all that may be cached is in hand; commit, or nothing more comes")

    def _take(self, held: Held) -> tuple[ReceivedMessage, ...]:
        while True:
            while held.direct:
                held.direct.popleft()()
            with held.lock:
                batch = held.owned.take(self._session.config.batch_size, now())
                # What arrived as the run ended would otherwise wait for the next one.
                again = not batch and held.direct and held.owned.request_run()
            if not again:
                return tuple(batch)

    def _finish(
        self, held: Held, batch: tuple[ReceivedMessage, ...], called: Called
    ) -> float | None:
        """Apply the result; returns the seconds to wait if the queue is suspended."""
        effect, context = called.effect, called.context
        finished: frozenset[int] = frozenset()
        if effect.disposition is Disposition.PUT_BACK:
            finished = self._dead_letters.bury(held, batch, context)
            if finished and all(m.queue_offset in finished | context.untried for m in batch):
                effect = ALL_FINISHED
        asked = context.suspend_seconds
        suspend = self._session.config.suspend if asked is None else asked
        with held.lock:
            held.owned.finish(batch, effect.disposition, now(), finished, context.untried)
            held.owned.suspended_until = now() + suspend if effect.suspend else None
        if not effect.suspend:
            return None
        at = where(self._session.group, held.queue, batch[0])
        held.log.info("queue suspended", **at, seconds=suspend)
        return suspend

    def _must_yield(self, started: float) -> bool:
        ran = now() - started
        return ran >= MAX_RUN or (ran >= FAIR_RUN and self.pool.crowded)
