"""One call of the user's handler: its context, the hooks around it, and what its answer means.

Whatever is not a ConsumeResult is a failure, never an acknowledgement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orderly.consumer.hooks import Consumed
from orderly.consumer.session import Held, Session, now
from orderly.consumer.statistics import ReturnType
from orderly.log import where
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext, Handler
from orderly.ordering.results import FAILURE, ConsumeResult, Disposition, Effect, effect_of

_ACKNOWLEDGES = frozenset({Disposition.COMMIT, Disposition.KEEP})


@dataclass(frozen=True, slots=True)
class Called:
    """What a call came to."""

    context: ConsumeContext
    consumed: Consumed
    effect: Effect


class Caller:
    """Calls the handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        handler: the user's function.
    """

    def __init__(self, session: Session, handler: Handler) -> None:
        self._session = session
        self._handler = handler

    def call(self, held: Held, batch: Sequence[ReceivedMessage]) -> Called:
        """Call the handler with `batch`; never raises."""
        context = ConsumeContext(
            held.queue, self._session.group, attempt=batch[0].reconsume_times + 1
        )
        # A tuple: what the handler does to its batch must not change ours.
        messages = tuple(batch)
        self._session.hooks.call("before", held.log, messages, context)
        started = now()
        answer = self._answer(held, messages, context)
        ended = now()
        effect = self._effect(held, batch, answer, context)
        kind = self._kind(answer, effect, ended - started)
        self._session.statistics.consumed(
            held.queue.topic, len(batch), ended - started, kind, ended, ok=not effect.suspend
        )
        consumed = Consumed(kind, answer, ended - started)
        self._session.hooks.call("after", held.log, messages, context, consumed)
        return Called(context, consumed, effect)

    def _answer(
        self, held: Held, messages: tuple[ReceivedMessage, ...], context: ConsumeContext
    ) -> object:
        try:
            return self._handler(messages, context)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a handler is a failure too
            self._warn(held, messages, "handler raised", error=_shown(error), exc_info=True)
            return error

    def _kind(self, answer: object, effect: Effect, seconds: float) -> ReturnType:
        """Java: ConsumeMessageOrderlyService, the ConsumeReturnType of a call."""
        if isinstance(answer, BaseException):
            return ReturnType.EXCEPTION
        if answer is None:
            return ReturnType.RETURNNULL
        if seconds >= self._session.config.consume_timeout:
            return ReturnType.TIME_OUT
        return ReturnType.FAILED if effect.suspend else ReturnType.SUCCESS

    def _effect(
        self,
        held: Held,
        batch: Sequence[ReceivedMessage],
        answer: object,
        context: ConsumeContext,
    ) -> Effect:
        if isinstance(answer, BaseException):
            return FAILURE
        if not isinstance(answer, ConsumeResult):
            self._warn(held, batch, "handler returned no ConsumeResult", answer=_shown(answer))
            return FAILURE
        if not isinstance(context.auto_commit, bool):
            self._warn(held, batch, "auto_commit is no bool", value=_shown(context.auto_commit))
            return FAILURE
        compat = self._session.config.java_compat
        effect = effect_of(answer, auto_commit=context.auto_commit, java_compat=compat)
        if effect.misplaced:
            self._warn(held, batch, "COMMIT or ROLLBACK under auto-commit", answer=str(answer))
        if context.rejected and effect.disposition in _ACKNOWLEDGES:
            # The dead letters are still to be stored; with an acknowledgement they would be lost.
            if context.auto_commit:
                rest = {m.queue_offset for m in batch} - context.rejected.keys()
                context.finished.update(rest)
            return FAILURE
        return effect

    def _warn(
        self, held: Held, batch: Sequence[ReceivedMessage], event: str, **fields: object
    ) -> None:
        held.log.warning(event, **where(self._session.group, held.queue, batch[0]), **fields)


def _shown(value: object) -> str:
    """The value for a log line, also if it cannot be shown."""
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return f"<{type(value).__name__} without a working repr>"
