"""Retrying soon, in tenacity's vocabulary; nothing sleeps: between two tries the message waits.

tenacity's `stop`, `wait` and `retry` are asked with a RetryCallState made by hand, so every rule
of tenacity's, and of the user's, works as it does under `@tenacity.retry`; but `fn` and `args` are
empty there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tenacity
from tenacity import (
    RetryCallState,
    Retrying,
    TryAgain,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.retry import RetryBaseT
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

from orderly.config.arguments import MAX_LANE_SUSPEND, check_number, is_async, yields
from orderly.config.fields import require
from orderly.listening.handler_call import FailedCall

LEASE = 30.0  # seconds for which a lock is trusted without a renewal (ConsumerConfig.lock_trust)

_THREE = stop_after_attempt(3)
_DOUBLED = wait_exponential(multiplier=0.1, max=5.0) + wait_random(0, 0.1)
_ASKED_BY = Retrying()  # a state belongs to one; nothing of it is used


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed message is retried soon, before a verdict about it.

    Between two tries the message's queue, or key, is suspended for `wait`. Meanwhile the thread
    works on others. Each try is a separate delivery.

    Attributes:
        stop: when to stop retrying; `stop_after_attempt(1)`: no retry. Suspensions that the
            function asks for count as attempts.
        wait: seconds until the next try, at least 0.01. The default begins with 0.1 to 0.2 and
            about doubles each time, up to 5. It is longer if the error asks for it (`retry_after`).
        retry: decides by the exception, or by `Fail(...)` (with `retry_if_result`), whether to
            retry. None: every failure is retried. `raise tenacity.TryAgain` is always retried.
        max_seconds: no retry begins later than this after the first failure, even if `stop` allows
            it. tenacity cannot report its total time, so this separate budget keeps retries within
            the lease: up to 30, or up to 3600 with `extend`.
        extend: renew the queue's lock right before each retry. If the lock is lost, the function is
            not called.

    Raises:
        ConfigError: a setting outside its range, or a longer budget than the lease's.
    """

    stop: StopBaseT = _THREE
    wait: WaitBaseT = _DOUBLED
    retry: RetryBaseT | None = None
    max_seconds: float = 20.0
    extend: bool = False

    def __post_init__(self) -> None:
        for name in ("stop", "wait", "retry"):
            rule = getattr(self, name)
            require(
                _can_be_asked(rule) or (name == "retry" and rule is None),
                f"{name} must be one of tenacity's {name}_… objects, or a plain function of a"
                f" RetryCallState, not {rule!r}",
            )
        require(isinstance(self.extend, bool), f"extend must be True or False, not {self.extend!r}")
        check_number("max_seconds", self.max_seconds, 0, MAX_LANE_SUSPEND)
        require(
            self.extend or self.max_seconds <= LEASE,
            f"max_seconds={self.max_seconds:g} is longer than the queue's lock is trusted"
            f" ({LEASE:g} s): pass extend=True, which renews it before each retry",
        )
        for seconds in _delays(self.stop):
            require(
                seconds <= self.max_seconds,
                f"stop allows {seconds:g} s, but max_seconds={self.max_seconds:g} ends the retries"
                " earlier: raise max_seconds (beyond 30 with extend=True)",
            )

    def next_wait(
        self, failed: FailedCall, number: int, first_at: float, waited: float, now: float
    ) -> float | None:
        """Return the seconds until the next try; None: there is no further try.

        Args:
            failed: the try.
            number: of the try, from 1.
            first_at: when the message failed first.
            waited: seconds it was made to wait by retries until now.
            now: seconds.

        Raises:
            Exception: an error of one of the user's rules.
        """
        state = _state(failed, number, first_at, waited, now)
        again = isinstance(failed.error, TryAgain) or self.retry is None or self.retry(state)
        if not again:
            return None
        state.upcoming_sleep = max(0.0, float(self.wait(state)), failed.asked or 0.0)
        late = now - first_at + state.upcoming_sleep > self.max_seconds
        return None if late or self.stop(state) else state.upcoming_sleep


def _can_be_asked(rule: object) -> bool:
    """Whether calling it answers: a class would make an object, an async one a coroutine."""
    return not isinstance(rule, type) and callable(rule) and not (is_async(rule) or yields(rule))


def _state(
    failed: FailedCall, number: int, first_at: float, waited: float, now: float
) -> RetryCallState:
    state = RetryCallState(_ASKED_BY, None, (), {})
    if failed.error is None:
        state.set_result(failed.answer)
    else:
        error = failed.error
        state.set_exception((type(error), error, error.__traceback__))
    state.attempt_number, state.idle_for = number, waited
    state.start_time, state.outcome_timestamp = first_at, now
    return state


def _delays(stop: object) -> Iterator[float]:
    """The delays of the rules of tenacity's that say how long they go on."""
    if isinstance(stop, tenacity.stop_after_delay | tenacity.stop_before_delay):
        yield stop.max_delay
    elif isinstance(stop, tenacity.stop_all):
        for part in stop.stops:
            yield from _delays(part)
