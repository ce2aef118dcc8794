"""Runs a queue's messages through the handler, one batch after another.

A run belongs to one queue; at most one run of a queue exists (`OwnedQueue.request_run`), so no
thread ever waits for another's queue. Java: ConsumeMessageOrderlyService.ConsumeRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from orderly.consumer.context import ConsumeContext, Handler
from orderly.consumer.pool import WorkerPool
from orderly.consumer.session import Held, Session, now
from orderly.log import where
from orderly.model import ReceivedMessage
from orderly.ordering.results import FAILURE, ConsumeResult, Effect, effect_of

MAX_RUN = 60.0  # seconds a run may go on while nobody waits for its thread (as Java)
FAIR_RUN = 0.1  # seconds it may go on once another queue waits for a thread
YIELD = 0.01  # seconds until a run that yielded is resumed (as Java)


class Worker:
    """Feeds the handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        handler: the user's function.
        reopened: called after a batch, so that a full queue is pulled again.
    """

    def __init__(
        self, session: Session, handler: Handler, reopened: Callable[[Held], None]
    ) -> None:
        config = session.config
        self._session = session
        self._handler = handler
        self._reopened = reopened
        self._pool = WorkerPool(session.group, config.min_workers, config.max_workers)

    def submit(self, held: Held) -> None:
        """Start a run that was claimed by `request_run`."""
        self._pool.submit(partial(self._run, held))

    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""
        self._pool.close()

    @property
    def inside(self) -> bool:
        """True on a thread that runs handlers."""
        return self._pool.inside

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
            context = ConsumeContext(held.queue, attempt=batch[0].reconsume_times + 1)
            effect = self._handle(held, batch, context)
            wait = self._finish(held, batch, effect, context)
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

    def _take(self, held: Held) -> list[ReceivedMessage]:
        with held.lock:
            return held.owned.take(self._session.config.batch_size, now())

    def _handle(
        self, held: Held, batch: Sequence[ReceivedMessage], context: ConsumeContext
    ) -> Effect:
        """Call the handler; whatever is not a ConsumeResult is a failure, never an ack."""
        try:
            # A tuple: what the handler does to its batch must not change ours.
            answer = self._handler(tuple(batch), context)
            effect = effect_of(answer, auto_commit=context.auto_commit)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a handler is a failure too
            self._warn(held, batch, "handler raised", error=_shown(error), exc_info=True)
            return FAILURE
        if effect.misplaced:
            self._warn(held, batch, "COMMIT or ROLLBACK under auto-commit", answer=str(answer))
        elif not isinstance(answer, ConsumeResult):
            self._warn(held, batch, "handler returned no ConsumeResult", answer=_shown(answer))
        return effect

    def _warn(
        self, held: Held, batch: Sequence[ReceivedMessage], event: str, **fields: object
    ) -> None:
        held.log.warning(event, **where(self._session.group, held.queue, batch[0]), **fields)

    def _finish(
        self,
        held: Held,
        batch: Sequence[ReceivedMessage],
        effect: Effect,
        context: ConsumeContext,
    ) -> float | None:
        """Apply the result; returns the seconds to wait if the queue is suspended."""
        asked = context.suspend_seconds
        suspend = self._session.config.suspend if asked is None else asked
        with held.lock:
            held.owned.finish(batch, effect.disposition, now())
        if not effect.suspend:
            return None
        at = where(self._session.group, held.queue, batch[0])
        held.log.info("queue suspended", **at, seconds=suspend)
        return suspend

    def _must_yield(self, started: float) -> bool:
        ran = now() - started
        return ran >= MAX_RUN or (ran >= FAIR_RUN and self._pool.crowded)


def _shown(value: object) -> str:
    """The value for a log line, also if it cannot be shown."""
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return f"<{type(value).__name__} without a working repr>"
