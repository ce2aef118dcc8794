"""Runs the user's function: attempts in place, then what `decide` says. A consumer's handler."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tenacity import (
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
    wait_random,
)

from orderly.config import check_function
from orderly.config.fields import require
from orderly.listener.decide import Failed, Tried, decide, read_answer
from orderly.listener.outcomes import Attempt, Block, Outcome
from orderly.listener.rules import Retry, Rules
from orderly.log import error_text, get_logger, key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext
from orderly.ordering.outcomes import Ack, DeadLetter
from orderly.ordering.results import ConsumeResult

Function = Callable[[ReceivedMessage, Attempt], Outcome]
"""A user's function for one message."""


class Listener:
    """Makes a consumer's handler of a function for one message.

        def ship(message, attempt):
            ...
            return Ack()

        OrderlyConsumer("shipping", Listener(ship, then=DeadLetter))

    A failing message is tried again in place, then suspends its queue (ordered by key: its key),
    longer each time, and at the limit `then` decides. Nothing behind it runs before. Only `Ack()`
    acknowledges.
    Deliveries are counted in the consumer's memory. Leave the consumer's `max_reconsume_times` at
    None: it would make a dead letter of a message whatever `then` says.

    Thread-safe: it keeps nothing between two calls; the function must be too, for queues, or
    keys, run side by side.

    Args:
        function: called with (message, attempt); answers with an Outcome. An Exception, None or
            anything else is a failure. KeyboardInterrupt and SystemExit are passed on.
        retry: the attempts in place.
        suspend: seconds to wait after the first failed delivery, 0.01 or more; doubled by each
            further one.
        max_suspend: the longest wait, up to 3600 seconds. A consumer by queue waits no longer than
            30 whatever this says.
        limit: failed deliveries after which the next one is the last; None: there is none.
        then: what happens at the limit, and after a fatal exception: `Block` (tried again every
            `max_suspend` seconds, with an error event each time) or `DeadLetter`.
        sleep: waits between attempts in place; a test may pass its own.

    Raises:
        ConfigError: not callable, or a setting outside its range.
        NotAvailableYet: an async function.
    """

    def __init__(
        self,
        function: Function,
        *,
        retry: Retry | None = None,
        suspend: float = 1.0,
        max_suspend: float = 30.0,
        limit: int | None = 16,
        then: type[Block | DeadLetter] = Block,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check_function("the function", function)
        retry = Retry() if retry is None else retry
        require(isinstance(retry, Retry), f"retry must be a Retry, not {retry!r}")
        self._function = function
        self._fatal = retry.fatal
        self._rules = Rules(suspend, max_suspend, limit, then)
        self._retrying = _retrying(retry, sleep)
        self._log = get_logger("orderly.listener")

    def __call__(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult:
        """Handle a batch in order, up to the first message that is not done."""
        for place, message in enumerate(messages):
            result = self._handle(message, context)
            if result is not None:
                for later in messages[place + 1 :]:
                    context.not_tried(later)
                return result
            context.done(message)
        return ConsumeResult.SUCCESS

    def _handle(self, message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult | None:
        """Run one message; returns what ends the batch, or None: the message is done."""
        at = where(context.group, message.queue, message)
        if context.key is not None:
            at["key"] = key_text(context.key)
        # Shared by all threads: tenacity keeps the state of a call per thread.
        tried: Tried = self._retrying(
            self._attempt, message, itertools.count(1), at, context.max_suspend
        )
        decision = decide(tried, message.reconsume_times, self._rules)
        if isinstance(decision, Ack):
            return None
        if isinstance(decision, DeadLetter):
            return context.dead_letter(message, decision.reason)
        seconds = min(decision.seconds, context.max_suspend)
        if decision.problem is not None:
            self._log.error(
                "the message blocks its queue",
                **at,
                reason=decision.problem,
                seconds=seconds,
            )
        return context.suspend(seconds)

    def _attempt(
        self, message: ReceivedMessage, numbers: Iterator[int], at: dict[str, Any], longest: float
    ) -> Tried:
        attempt = Attempt(next(numbers), delivery=message.reconsume_times + 1)
        raised: Exception | None = None
        try:
            tried = read_answer(self._function(message, attempt), longest)
        except Exception as error:  # noqa: BLE001 - whatever the function raises is a failure
            raised = error
            tried = Failed(error_text(error), fatal=isinstance(error, self._fatal))
        if isinstance(tried, Failed):
            self._log.warning(
                "attempt failed",
                **at,
                attempt_in_place=attempt.number,
                reason=tried.reason,
                fatal=tried.fatal,
                exc_info=raised,
            )
        return tried


def _retrying(retry: Retry, sleep: Callable[[float], None]) -> Retrying:
    return Retrying(
        sleep=sleep,
        stop=stop_after_attempt(retry.attempts) | stop_before_delay(retry.max_seconds),
        wait=wait_exponential(multiplier=retry.first_wait, max=retry.max_wait)
        + wait_random(0, retry.first_wait),
        retry=retry_if_result(lambda tried: isinstance(tried, Failed) and not tried.fatal),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
