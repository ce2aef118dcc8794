"""Consuming one message by hand, as an administrator asks for it.

`mqadmin queryMsgByUniqueKey` and `queryMsgById` ask so, given a group (-g) and a member (-d).
Refused unless the configuration allows it: the message is consumed out of its turn. It runs on the
queue's lane, so never beside the handler, and changes neither the cache nor the offset.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from orderly.consumer.calling import Called, Caller
from orderly.consumer.hooks import Consumed
from orderly.consumer.session import Held, Session, now
from orderly.consumer.statistics import ReturnType
from orderly.consumer.worker import Worker
from orderly.errors import LifecycleError
from orderly.model import ReceivedMessage
from orderly.ordering.results import ConsumeResult
from orderly.protocol.direct_result import DirectOutcome, DirectResult

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
        worker: has the queues' lanes.
        caller: calls the user's handler.
    """

    def __init__(self, session: Session, worker: Worker, caller: Caller) -> None:
        self._session = session
        self._worker = worker
        self._caller = caller

    def consume(self, message: ReceivedMessage) -> DirectResult | None:
        """Run the handler on `message` and wait for it; None: not allowed here.

        Raises:
            LifecycleError: the message's queue is not held by this member.
            TimeoutError: the queue's lane did not get to it in time.
        """
        if not self._session.config.allow_direct_consume:
            return None
        held = self._session.find(message.queue)
        if held is None:
            raise LifecycleError(
                f"{message.queue} is not held by this member; ask the member that holds it"
            )
        held.log.warning("a message is consumed by hand", offset=message.queue_offset)
        named = replace(message, namespace=self._session.client.config.namespace)
        called: Future[Called] = Future()
        self._worker.submit_direct(held, lambda: self._call(held, named, called))
        try:
            return _result(called.result(_PATIENCE))
        except TimeoutError:
            called.cancel()  # nobody waits for it any more, so it must not run later
            raise

    def _call(self, held: Held, message: ReceivedMessage, called: Future[Called]) -> None:
        if not called.set_running_or_notify_cancel():
            return
        with held.lock:
            lent = held.owned.lend(now())
        if not lent:
            called.set_exception(LifecycleError(f"{held.queue} is being given up"))
            return
        try:
            called.set_result(self._caller.call(held, (message,)))
        finally:
            with held.lock:
                held.owned.give_back()


def _result(called: Called) -> DirectResult:
    consumed = called.consumed
    return DirectResult(
        _outcome(consumed), called.context.auto_commit, _remark(consumed), consumed.seconds
    )


def _outcome(consumed: Consumed) -> DirectOutcome:
    if consumed.kind is ReturnType.EXCEPTION:
        return DirectOutcome.THROW_EXCEPTION
    if isinstance(consumed.answer, ConsumeResult):
        return _OUTCOMES[consumed.answer]
    return DirectOutcome.RETURN_NULL


def _remark(consumed: Consumed) -> str:
    return repr(consumed.answer)[:200] if consumed.kind is ReturnType.EXCEPTION else ""
