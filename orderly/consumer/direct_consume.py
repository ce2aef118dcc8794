"""Consuming one message by hand, as an administrator asks for it.

`mqadmin queryMsgByUniqueKey` and `queryMsgById` ask so, given a group (-g) and a member (-d).
Refused unless the configuration allows it: the message is consumed out of its turn. It runs in
the lane of its queue, or its key, so never beside the handler, and changes neither cache nor
offset.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from orderly.clock import now
from orderly.consumer.handler_caller import Called, CallHandler, TaskSteps
from orderly.consumer.session import HeldQueue, Session
from orderly.consumer.statistics import ReturnType
from orderly.errors import LifecycleError
from orderly.log import error_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.explain_keys import why_no_turn
from orderly.ordering.lane import Turn
from orderly.ordering.results import ConsumeResult
from orderly.protocol.members import DirectOutcome, DirectResult

_PATIENCE = 9.0  # seconds; the broker itself waits for 10

_OUTCOMES = {
    ConsumeResult.SUCCESS: DirectOutcome.SUCCESS,
    ConsumeResult.SUSPEND: DirectOutcome.LATER,
    ConsumeResult.COMMIT: DirectOutcome.COMMIT,
    ConsumeResult.ROLLBACK: DirectOutcome.ROLLBACK,
}


class DirectConsumption:
    """Thread-safe.

    Args:
        session: the consumer's shared state.
        ready: called when a queue has something to run.
    """

    def __init__(self, session: Session, ready: Callable[[HeldQueue], None]) -> None:
        self._session = session
        self._ready = ready

    def consume(self, message: ReceivedMessage) -> DirectResult | None:
        """Run the handler on `message` and wait for it; None: not allowed here.

        Raises:
            LifecycleError: the message's queue is not held by this member.
            TimeoutError: its lane did not get to it in time; the text says what it waited for.
        """
        if not self._session.config.allow_direct_consume:
            return None
        held = self._session.find(message.queue)
        if held is None:
            raise LifecycleError(
                f"this member does not hold {message.queue}; ask the member that holds it"
            )
        at = where(self._session.group, message.queue, message)
        held.log.warning("message.consumed_by_hand", **at)
        named = message.changed(namespace=self._session.client.config.namespace)
        call = DirectCall(named)
        key = self._session.key(named) if held.owned.by_key else None
        with held.lock:
            held.owned.want_turn(key, Turn(call))
        self._ready(held)
        try:
            return _result(call.wait(_PATIENCE), redact=self._session.redacts)
        except TimeoutError as error:
            with held.lock:
                dropped = held.owned.dropped
                why = why_no_turn(held.owned, key, now(), errand=False)
            if dropped is None:
                raise TimeoutError(f"nothing was run within {_PATIENCE:g} s: {why}") from error
            raise LifecycleError(f"this member released {held.queue} meanwhile") from error


def _result(called: Called, *, redact: bool) -> DirectResult:
    remark = _remark(called.answer, redact=redact)
    return DirectResult(_outcome(called), called.context.auto_commit, remark, called.seconds)


def _outcome(called: Called) -> DirectOutcome:
    if called.kind is ReturnType.EXCEPTION:
        return DirectOutcome.THROW_EXCEPTION
    if called.result is not None:
        return _OUTCOMES[called.result]
    return DirectOutcome.RETURN_NULL if called.answer is None else DirectOutcome.LATER


def _remark(answer: object, *, redact: bool) -> str:
    if not isinstance(answer, BaseException):
        return ""
    return type(answer).__name__ if redact else error_text(answer)


# --- the message, waiting for its lane's turn -----------------------------------------------------


class DirectCall:
    """Thread-safe.

    Args:
        message: to hand to the handler.
    """

    def __init__(self, message: ReceivedMessage) -> None:
        self.message = message
        self._called: Future[Called] = Future()

    def steps(self) -> TaskSteps:
        """Have it handled, unless nobody waits for it any more."""
        if self._called.set_running_or_notify_cancel():
            called = yield CallHandler((self.message,))
            self._called.set_result(called)

    def wait(self, seconds: float) -> Called:
        """Wait for the answer.

        Raises:
            TimeoutError: it did not come to its turn; it will not run later either.
        """
        try:
            return self._called.result(seconds)
        except TimeoutError:
            self._called.cancel()
            raise
