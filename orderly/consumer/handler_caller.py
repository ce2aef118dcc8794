"""One call of the user's handler: its context, the hooks around it, and what its answer means.

Anything that is not an outcome is a failure, never an acknowledgement. Threads use `call`, a loop
of coroutines `call_async`; both are `begin`, the handler, `conclude`. What then becomes of the
messages is done by `finishing`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, cast

from orderly.clock import now
from orderly.config.arguments import MIN_SUSPEND, asked_to_stop
from orderly.consumer.hooks import Consumed
from orderly.consumer.session import HeldQueue, Session, log_context
from orderly.consumer.statistics import ReturnType, Statistics
from orderly.errors import ConfigError
from orderly.log import error_text, type_text, without_our_frames
from orderly.model import ReceivedMessage
from orderly.ordering.backoff import retry_after
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.fingerprint import Fingerprint, answered, fingerprint
from orderly.ordering.results import (
    FAILURE,
    PLAIN_SUCCESS,
    Ack,
    ConsumeResult,
    DeadLetter,
    Effect,
    Fail,
    Park,
    Suspend,
    effect_of,
)


class Mode(Enum):
    """What a call is for; the handler reads it in its context."""

    LIVE = "a message of the queue"
    REPLAY = "a parked message that is released"
    DRY_RUN = "a parked message that is only tried"


class Called:
    """A call: from `begin` on what it is about, and after `conclude` what it came to.

    Attributes:
        held: the queue.
        messages: what the handler is given.
        context: with what the handler set in it.
        at: when it began (seconds).
        kind: how it ended.
        answer: what the handler returned, or the exception it raised.
        seconds: how long it took.
        result: the answer as one of Java's four; None: a failure.
        effect: what becomes of the messages.
        wait: seconds the handler, or the exception it raised, chose to wait; None: it did not say,
            or there is nothing to wait for.
    """

    __slots__ = (
        "answer",
        "at",
        "context",
        "effect",
        "held",
        "kind",
        "messages",
        "result",
        "seconds",
        "wait",
    )

    def __init__(
        self,
        held: HeldQueue,
        messages: tuple[ReceivedMessage, ...],
        context: ConsumeContext,
        at: float,
    ) -> None:
        self.held = held
        self.messages = messages
        self.context = context
        self.at = at
        # What nearly every call comes to.
        self.kind = ReturnType.SUCCESS
        self.answer: object = None
        self.seconds = 0.0
        self.result: ConsumeResult | None = ConsumeResult.SUCCESS
        self.effect = PLAIN_SUCCESS
        self.wait: float | None = None

    def count(self, statistics: Statistics) -> None:
        """Count it, once it is concluded; a burst counts its plain successes together."""
        statistics.consumed(
            self.context.message_queue.topic,
            len(self.messages),
            self.seconds,
            self.kind,
            self.at + self.seconds,
            ok=not self.effect.suspend,
        )


class Caller:
    """Calls the handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        handler: the user's function.
    """

    def __init__(self, session: Session, handler: Handler | AsyncHandler) -> None:
        self._session = session
        self._handler = handler
        self._hooks = session.hooks
        self._longest_suspend = session.config.longest_suspend
        self._consume_timeout = session.config.consume_timeout

    def call(
        self,
        held: HeldQueue,
        batch: Sequence[ReceivedMessage],
        key: Hashable | None = None,
        mode: Mode = Mode.LIVE,
    ) -> Called:
        """Call the handler with `batch`, messages of one key; never raises."""
        started = self.begin(held, batch, key, mode)
        answer: object
        try:
            answer = self._handler(started.messages, started.context)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a handler is a failure too
            answer = without_our_frames(error)
        return self.conclude(started, answer)

    async def call_async(
        self,
        held: HeldQueue,
        batch: Sequence[ReceivedMessage],
        key: Hashable | None = None,
        mode: Mode = Mode.LIVE,
    ) -> Called:
        """Await the handler, in the task that awaits this.

        A CancelledError that comes from within (something the handler awaited was cancelled) is a
        failure like any raise. When this task itself was asked to stop (`Task.cancel`: the lock is
        lost, the loop ends), the call is concluded as a failure all the same, and the
        CancelledError then goes on: nothing was acknowledged, the messages are to be put back. A
        handler that catches it and answers is believed; `Task.cancelling()` stays above 0.

        Raises:
            asyncio.CancelledError: this task was asked to stop.
        """
        started = self.begin(held, batch, key, mode)
        answer: object
        try:
            answer = await cast("AsyncHandler", self._handler)(started.messages, started.context)
        except asyncio.CancelledError as error:
            called = self.conclude(started, error)
            if asked_to_stop():
                called.count(self._session.statistics)
                raise
            return called
        except (GeneratorExit, KeyboardInterrupt):
            raise  # not the handler's: the coroutine was thrown away, or the program is to end
        except BaseException as error:  # noqa: BLE001 - sys.exit in a handler is a failure too
            answer = without_our_frames(error)
        return self.conclude(started, answer)

    def begin(
        self,
        held: HeldQueue,
        batch: Sequence[ReceivedMessage],
        key: Hashable | None = None,
        mode: Mode = Mode.LIVE,
    ) -> Called:
        """Make the context, call the hook "before" and note the time; never raises."""
        session = self._session
        context = ConsumeContext(
            held.owned.queue,
            session.group,
            batch[0].reconsume_times + 1,
            True,  # all by place, which is twice as fast
            key,
            held.ownership,
            self._longest_suspend,
            mode is not Mode.LIVE,
            mode is Mode.DRY_RUN,
            session.redacts,
        )
        # A tuple: what the handler does to its batch must not change ours.
        messages = tuple(batch)
        if self._hooks.before is not None:
            self._hooks.call("before", held.log, messages, context)
        return Called(held, messages, context, now())

    def conclude(self, called: Called, answer: object) -> Called:
        """Read the answer and call the hook "after"; never raises.

        Args:
            called: as `begin` made it.
            answer: what the handler returned, or the exception it raised.
        """
        ended = now()
        context: Any = called.context  # a program may have set anything in it
        called.answer = answer
        called.seconds = ended - called.at
        if (
            answer is not ConsumeResult.SUCCESS
            or context.auto_commit is not True
            or context.names_some
            or called.seconds >= self._consume_timeout
        ):
            self._conclude_any(called, answer)
        if not (context.replayed or context.dry_run):
            _note(called, answer, ended)
        if self._hooks.after is not None:
            consumed = Consumed(called.kind, answer, called.seconds)
            self._hooks.call("after", called.held.log, called.messages, context, consumed)
        return called

    def _conclude_any(self, called: Called, answer: object) -> None:
        """Conclude what may be no plain success."""
        called.result = result = self._read(called, answer)
        called.effect = FAILURE if result is None else self._effect(called, result)
        called.kind = self._kind(answer, called.effect, called.seconds)
        called.wait = called.context.suspend_seconds if called.effect.suspend else None

    def _read(self, started: Called, answer: object) -> ConsumeResult | None:
        """The answer as one of Java's four; None: a failure, which is logged."""
        match answer:
            case ConsumeResult():
                return answer
            case Ack():
                return ConsumeResult.SUCCESS
            case Suspend(seconds):
                return self._suspend(started, seconds)
            case DeadLetter(reason):
                for message in _unsettled(started):
                    started.context.rejected.setdefault(message.queue_offset, reason)
                return ConsumeResult.SUSPEND
            case Park(reason):
                left = _unsettled(started) or started.messages
                return started.context.park(left[0], reason)
            case _:
                self._log_failure(started, answer)
                return None

    def _log_failure(self, started: Called, answer: object) -> None:
        match answer:
            case Fail(reason):
                self._warn(started, "handler.answered_fail", reason=reason)
            case BaseException():
                self._warn(started, "handler.raised", error=error_text(answer), exc_info=answer)
                _wait_as_asked(started.context, answer)
            case Coroutine():
                self._warn(started, "handler.returned_coroutine", hint="make it `async def`")
                with suppress(BaseException):
                    answer.close()  # nobody will await it, which Python would warn of
            case _:
                hint = "nothing was acknowledged: return Ack() for messages that are done"
                what = type_text(answer)
                self._warn(started, "handler.returned_no_outcome", answer=what, hint=hint)

    def _suspend(self, started: Called, seconds: float | None) -> ConsumeResult | None:
        if seconds is None:
            return ConsumeResult.SUSPEND
        try:
            return started.context.suspend(seconds)
        except ConfigError as error:
            self._warn(started, "handler.wait_too_long", error=str(error))
            return None

    def _effect(self, started: Called, result: ConsumeResult) -> Effect:
        context: Any = started.context  # see `conclude`
        if not isinstance(context.auto_commit, bool):
            self._warn(started, "handler.auto_commit_no_bool", value=type_text(context.auto_commit))
            return FAILURE
        compat = self._session.config.java_compat
        effect = effect_of(result, auto_commit=context.auto_commit, java_compat=compat)
        if effect.misplaced:
            self._warn(started, "handler.answer_misplaced", answer=str(result))
        if context.names_some and effect.acknowledges and _names_undone(context):
            # They are still to be stored elsewhere, or to be tried; with an acknowledgement they
            # would be lost.
            if context.auto_commit and not context.parked:
                undone = context.rejected.keys() | context.untried
                context.finished.update({m.queue_offset for m in started.messages} - undone)
            return FAILURE
        return effect

    def _kind(self, answer: object, effect: Effect, seconds: float) -> ReturnType:
        """Java: ConsumeMessageOrderlyService, the ConsumeReturnType of a call."""
        if isinstance(answer, BaseException):
            return ReturnType.EXCEPTION
        if answer is None:
            return ReturnType.RETURNNULL
        if seconds >= self._consume_timeout:
            return ReturnType.TIME_OUT
        return ReturnType.FAILED if effect.suspend else ReturnType.SUCCESS

    def _warn(self, started: Called, event: str, **fields: object) -> None:
        held, key = started.held, started.context.key
        at = log_context(self._session.group, held, started.messages[0], key)
        held.log.warning(event, **at, **fields)


def _note(started: Called, answer: object, ended: float) -> None:
    """Note how the call failed, or that it did not, for those who ask what the queue waits for."""
    failures, context = started.held.failures, started.context
    if not started.effect.suspend:
        failures.succeeded(context.key)
        return
    left = _unsettled(started)
    if left:
        how = context.fingerprint or _fingerprint(answer)
        failures.failed(context.key, left[0].queue_offset, how, ended, context.because)


def _fingerprint(answer: object) -> Fingerprint:
    if isinstance(answer, BaseException):
        return fingerprint(answer)
    return answered(answer.name if isinstance(answer, ConsumeResult) else type(answer).__name__)


def _unsettled(started: Called) -> tuple[ReceivedMessage, ...]:
    """What the handler named neither done nor untried."""
    settled = started.context.finished | started.context.untried
    return tuple(m for m in started.messages if m.queue_offset not in settled)


def _names_undone(context: ConsumeContext) -> bool:
    return bool(context.rejected or context.parked or context.untried - context.finished)


def _wait_as_asked(context: ConsumeContext, error: BaseException) -> None:
    """Wait as long as the exception asks for, if it does, and no longer than is allowed."""
    asked = retry_after(error, time.time())
    if asked is not None:
        context.suspend(min(max(asked, MIN_SUSPEND), context.max_suspend))


# --- tasks that run in the turn of a lane, between two batches ------------------------------------
# A task is a dialogue of its own: it says whom to call the handler for, and gets what came of it.
# What it does in between may block, so a loop of coroutines has that done on a thread.


@dataclass(frozen=True, slots=True)
class CallHandler:
    """Call the handler with these messages of the lane's key. Answer: Called.

    Attributes:
        messages: one or more.
        mode: what for.
    """

    messages: tuple[ReceivedMessage, ...]
    mode: Mode = Mode.LIVE


TaskSteps = Generator[CallHandler, Called, None]


class LaneTask(Protocol):
    """One lane task. Its steps are driven by one thread after the other."""

    def steps(self) -> TaskSteps:
        """Do it; may be closed early, when the queue is lost."""


def next_call(steps: TaskSteps, called: Called | None) -> CallHandler | None:
    """Go on with what the last call came to, None: there was none yet; None: it is done."""
    try:
        return next(steps) if called is None else steps.send(called)
    except StopIteration:
        return None
