"""What becomes of each try of a message: the rules, the memory and the events put together.

The same for plain and async functions: nothing here waits but `renew`, which asks the broker.
"""

from __future__ import annotations

import random
import threading

from orderly.config.numbers import MIN_SUSPEND
from orderly.errors import OrderlyError
from orderly.listening.decision import Decision
from orderly.listening.delivery import Delivery
from orderly.listening.memory import Case, Memory, Trying
from orderly.listening.outcomes import Block, Outcome, Skip
from orderly.listening.policies import outcome_of
from orderly.listening.settings import Rules
from orderly.listening.telling import Events
from orderly.listening.trial import Failed, Tried
from orderly.log import error_text
from orderly.ordering.backoff import backoff
from orderly.ordering.context import Failure
from orderly.ordering.outcomes import Ack, Fail, Park, Suspend
from orderly.ordering.verdict import Finding, Kind


class Judge:
    """Thread-safe.

    Args:
        rules: the listener's.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._groups: dict[str, Memory] = {}
        self._lock = threading.Lock()
        self._events = Events()

    def memory(self, group: str) -> Memory:
        """Return what is remembered for a group."""
        memory = self._groups.get(group)
        if memory is None:
            with self._lock:
                memory = self._groups.setdefault(group, Memory(self._rules.poison))
        return memory

    # --- before the function -------------------------------------------------------------------

    def hold(self, delivery: Delivery, now: float) -> Decision | None:
        """Return how long an outage holds the message back, None: try it."""
        if delivery.is_replay:
            return None
        wait = self.memory(delivery.context.group).admit(delivery.lane, now)
        return self._wait(delivery, wait * (1 + _chance() / 10), untried=True) if wait else None

    def renews(self, delivery: Delivery) -> bool:
        """Whether `renew` is due: this is a retry, and retries are to renew the lock."""
        if not self._rules.retry.extend or delivery.is_replay:
            return False
        trying = self.memory(delivery.context.group).trying(delivery)
        return trying is not None and trying.retrying

    def renew(self, delivery: Delivery) -> Decision | None:
        """Renew the queue's lock; return a wait if that failed. Blocks."""
        try:
            delivery.context.extend()
        except OrderlyError as error:
            self.untried(delivery)
            self._events.not_renewed(delivery, error_text(error))
            return self._wait(delivery, self._rules.suspend, untried=True)
        return None

    def untried(self, delivery: Delivery) -> None:
        """Say that a message which was not held back came to nothing."""
        self.memory(delivery.context.group).untried(delivery.lane)

    # --- after it ------------------------------------------------------------------------------

    def decide(self, delivery: Delivery, tried: Tried, now: float) -> Decision:
        """Return what becomes of the message after a try.

        Args:
            delivery: of the message.
            tried: what the try came to.
            now: seconds.
        """
        if delivery.is_replay:
            return self._replayed(delivery, tried)
        memory = self.memory(delivery.context.group)
        if isinstance(tried, Failed):
            delivery.context.fingerprint = tried.fingerprint
            return self._failed(delivery, tried, memory, now)
        if isinstance(tried, Ack):
            memory.succeeded(delivery.lane, now)
            if memory.holding:
                self._tell_circuits(delivery, memory)
            return Decision(tried)
        memory.passed(delivery.lane)
        return self._carry_out(delivery, tried, None)

    def _replayed(self, delivery: Delivery, tried: Tried) -> Decision:
        """A replay is done or it is not: it feeds no verdict, and no policy is applied."""
        if isinstance(tried, Ack):
            return Decision(tried)
        if isinstance(tried, Failed):
            self._events.replay_failed(delivery, tried)
            return Decision(Fail(tried.fingerprint.text))
        return Decision(Fail(f"answered {type(tried).__name__}"))

    def _failed(self, delivery: Delivery, failed: Failed, memory: Memory, now: float) -> Decision:
        case = memory.failed(delivery, failed, now)
        self._tell_circuits(delivery, memory)
        verdict = case.verdict
        if verdict is not None and verdict.finding is Finding.POISON:
            outcome = outcome_of(self._rules.on_poison, delivery, failed, verdict, self._events)
            if not isinstance(outcome, Block | Suspend | Fail):
                case.trying.condemned = failed.fingerprint.digest, verdict
                memory.passed(delivery.lane)
            return self._carry_out(delivery, outcome, failed)
        return self._again(delivery, failed, case, now)

    def _again(self, delivery: Delivery, failed: Failed, case: Case, now: float) -> Decision:
        outage = case.verdict is not None and case.verdict.finding is Finding.OUTAGE
        soon = None if outage else self._soon(delivery, failed, case.trying, now)
        seconds = max(self._later(case), failed.asked or 0.0) if soon is None else soon
        seconds = _allowed(delivery, seconds)
        case.trying.retrying = soon is not None
        case.trying.waited += seconds if soon is not None else 0.0
        self._events.retry(delivery, failed, case.verdict, seconds, in_place=soon is not None)
        return self._wait(delivery, seconds)

    def _soon(self, delivery: Delivery, failed: Failed, trying: Trying, now: float) -> float | None:
        """Seconds until a retry, None: there is none."""
        if failed.kind is Kind.FATAL:
            return None
        try:
            return self._rules.retry.next_wait(
                failed, delivery.number, trying.first_at, trying.waited, now
            )
        except Exception as error:  # noqa: BLE001 - a rule of the user's may do anything
            self._events.rule_failed(delivery, error)
            return None

    def _later(self, case: Case) -> float:
        """Seconds until the next try once there are no more retries."""
        if case.verdict is not None:
            return case.verdict.wait * (0.75 + _chance() / 4)
        case.trying.suspended += 1
        return self._growing(case.trying.suspended)

    def _carry_out(self, delivery: Delivery, outcome: Outcome, failed: Failed | None) -> Decision:
        """Make a decision of what the function answered, or the policy about a failure."""
        memory = self.memory(delivery.context.group)
        match outcome:
            case Suspend(seconds) if seconds is not None:
                return self._wait(delivery, seconds)
            case Suspend() | Fail():  # it is not for the function to say, or a policy's failure
                return self._wait(delivery, self._growing(delivery.number))
            case Block(reason):
                seconds = min(self._rules.max_suspend, delivery.context.max_suspend)
                self._events.blocked(delivery, reason, seconds)
                return Decision(outcome, wait=seconds)
            case Park(reason):
                trying = memory.trying(delivery)
                return Decision(outcome, failure=_failure(reason, delivery, failed, trying))
            case Skip(reason):
                self._events.skipped(delivery, reason, failed)
        if isinstance(outcome, Ack | Skip):
            memory.settled(delivery.lane)
        return Decision(outcome)

    def _growing(self, failures: int) -> float:
        return backoff(failures, self._rules.suspend, self._rules.max_suspend, _chance())

    def _wait(self, delivery: Delivery, seconds: float, *, untried: bool = False) -> Decision:
        allowed = _allowed(delivery, seconds)
        return Decision(Suspend(allowed), wait=allowed, untried=untried)

    def _tell_circuits(self, delivery: Delivery, memory: Memory) -> None:
        self._events.circuits(delivery.context.group, *memory.changed_circuits())


def _allowed(delivery: Delivery, seconds: float) -> float:
    return min(max(seconds, MIN_SUSPEND), delivery.context.max_suspend)


def _chance() -> float:
    return random.random()  # noqa: S311 - it spreads waits


def _failure(
    reason: str, delivery: Delivery, failed: Failed | None, trying: Trying | None
) -> Failure:
    return Failure(
        reason,
        attempts=delivery.number,
        fingerprint=None if failed is None else failed.fingerprint.text,
        first_error=None if trying is None else trying.first_error,
        last_error=None if failed is None else failed.text,
    )
