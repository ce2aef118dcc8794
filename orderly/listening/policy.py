"""What becomes of a message after each try: retry, wait, or what `on_poison` says.

The same for plain and async functions: nothing here waits but `renew`, which asks the broker.
What is remembered of failing messages is bounded for any traffic.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from orderly.config.arguments import MIN_SUSPEND
from orderly.errors import OrderlyError
from orderly.listening.handler_call import Attempt, Delivery, FailedCall, Lane, Tried
from orderly.listening.outcomes import FINAL, Block, Outcome, Skip, too_long
from orderly.listening.settings import OnPoison, Policy, Rules
from orderly.log import error_text, get_logger, key_text, type_text, where
from orderly.ordering.backoff import backoff
from orderly.ordering.context import Failure, QueueOwnership
from orderly.ordering.lru import put_latest
from orderly.ordering.poison import FailureKind, Finding, PoisonRules, PoisonVerdict, Verdicts
from orderly.ordering.results import Ack, Answer, DeadLetter, Fail, Park, Suspend


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a message.

    Attributes:
        outcome: Ack, Skip: it is done. Suspend, Block: it comes again. DeadLetter, Park: as they
            say. Fail: a replay's failure.
        wait: with Suspend and Block, seconds; None with all others.
        untried: the function was not called.
        failure: with Park, what is known of the message.
    """

    outcome: Outcome
    wait: float | None = None
    untried: bool = False
    failure: Failure | None = None

    def apply(self, delivery: Delivery) -> Answer | None:
        """Apply it to the context; returns what ends the batch, or None: the message is done."""
        message, context = delivery.message, delivery.context
        if self.untried:
            context.not_tried(message)
        if self.wait is not None:
            return context.suspend(self.wait)
        match self.outcome:
            case DeadLetter(reason):
                return context.dead_letter(message, reason)
            case Park(reason):
                return context.park(message, reason, self.failure)
            case Fail() as failed:
                return failed
            case Ack() | Skip():
                context.done(message)
                return None
        # What nobody wrote a rule for must not count as handled.
        raise NotImplementedError(f"no rule says what {self.outcome!r} does to its message")


# --- what is remembered of one group's failing messages -------------------------------------------


_MOST = 10_000  # messages; beyond that, the one that failed longest ago is forgotten
_SWEEP = 1.0  # seconds between two looks for queues that were lost


@dataclass(slots=True)
class UnsettledMessage:
    """A message that failed and is not settled. Only its own call changes it.

    Attributes:
        offset: the message's.
        ownership: the ownership of its queue under which it failed.
        first_at: of its first failure.
        first_error: the text of that.
        waited: seconds it was made to wait by retries.
        suspended: how often it was suspended once they were used up.
        retrying: the next try is a retry.
        condemned: the fingerprint it was found poisoned with, and the verdict. It comes again only
            if it could not be parked; then the verdict remains.
    """

    offset: int
    ownership: QueueOwnership | None
    first_at: float
    first_error: str
    waited: float = 0.0
    suspended: int = 0
    retrying: bool = False
    condemned: tuple[str, PoisonVerdict] | None = None

    def about(self, delivery: Delivery) -> bool:
        """Whether it is that message, and the queue was ours all the time."""
        same = self.offset == delivery.message.queue_offset
        return same and self.ownership is delivery.context.ownership


@dataclass(frozen=True, slots=True)
class JudgedFailure:
    """A failure: what is known of its message, and the verdict (None: nobody judges)."""

    trying: UnsettledMessage
    verdict: PoisonVerdict | None


class FailureMemory:
    """Thread-safe. Times are seconds of one clock that never goes back.

    Args:
        rules: of the verdict; None: no verdict.
    """

    def __init__(self, rules: PoisonRules | None) -> None:
        self._verdicts = None if rules is None else Verdicts(rules)
        self._trying: OrderedDict[Lane, UnsettledMessage] = OrderedDict()
        self._reported: frozenset[str | None] = frozenset()
        self._swept_at = float("-inf")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Entries held."""
        with self._lock:
            return len(self._trying) + (0 if self._verdicts is None else self._verdicts.size)

    def admit(self, lane: Lane, now: float) -> float:
        """Return 0.0, or the seconds to hold the lane back: see `Verdicts.admit`."""
        if self._verdicts is None:
            return 0.0
        with self._lock:
            return self._verdicts.admit(lane, now)

    def trying(self, delivery: Delivery) -> UnsettledMessage | None:
        """Return what is known of a message that failed before."""
        with self._lock:
            trying = self._trying.get(delivery.lane)
        return trying if trying is not None and trying.about(delivery) else None

    def succeeded(self, lane: Lane, now: float) -> None:
        """The lane's message is handled."""
        with self._lock:
            self._trying.pop(lane, None)
            if self._verdicts is not None:
                self._verdicts.succeeded(lane, now)

    def failed(
        self, delivery: Delivery, failed: FailedCall, now: float, policy: OnPoison = "block"
    ) -> JudgedFailure:
        """Note a failure and judge it, for a policy that would apply to a bad message."""
        lane, digest = delivery.lane, failed.fingerprint.digest
        with self._lock:
            self._sweep(now)
            trying = self._note(delivery, failed, now)
            if trying.condemned is not None and trying.condemned[0] == digest:
                return JudgedFailure(trying, trying.condemned[1])
            if self._verdicts is None:
                return JudgedFailure(trying, None)
            if failed.unreadable:
                stays = policy == "block"
                verdict = self._verdicts.unreadable(lane, delivery.number, now, stays=stays)
            else:
                offset, parks = delivery.message.queue_offset, policy == "park_key"
                verdict = self._verdicts.failed(lane, offset, digest, failed.kind, now, parks=parks)
            return JudgedFailure(trying, verdict)

    def untried(self, lane: Lane) -> None:
        """The lane was admitted, but its message not tried."""
        with self._lock:
            if self._verdicts is not None:
                self._verdicts.untried(lane)

    def passed(self, lane: Lane) -> None:
        """The lane's message is neither handled nor failed: that says nothing of the handler."""
        with self._lock:
            if self._verdicts is not None:
                self._verdicts.forget(lane)

    def settled(self, lane: Lane) -> None:
        """The lane's message was given up, and will not come again."""
        with self._lock:
            self._trying.pop(lane, None)
        self.passed(lane)

    def failing_for(self, now: float) -> float:
        """For how many seconds most keys have failed and none has succeeded; 0.0: it is not so."""
        if self._verdicts is None:
            return 0.0
        with self._lock:
            self._sweep(now)
            since = self._verdicts.failing_since(now)
        return 0.0 if since is None else now - since

    @property
    def holding(self) -> bool:
        """Whether `changed_circuits` reported one that opened and not yet that it closed."""
        return bool(self._reported)

    def changed_circuits(self) -> tuple[frozenset[str | None], frozenset[str | None]]:
        """Return which circuits opened and which closed since the last call.

        A circuit is named by the fingerprint whose keys it holds; None: it holds all keys.
        """
        if self._verdicts is None:
            return frozenset(), frozenset()
        with self._lock:
            before, self._reported = self._reported, self._verdicts.open_circuits
            return self._reported - before, before - self._reported

    def _note(self, delivery: Delivery, failed: FailedCall, now: float) -> UnsettledMessage:
        trying = self._trying.get(delivery.lane)
        if trying is None or not trying.about(delivery):
            offset, ownership = delivery.message.queue_offset, delivery.context.ownership
            trying = UnsettledMessage(offset, ownership, now, failed.text)
        put_latest(self._trying, delivery.lane, trying, _MOST)
        return trying

    def _sweep(self, now: float) -> None:
        """Forget the messages of queues that are no longer ours; no handler hears of that."""
        if now - self._swept_at < _SWEEP:
            return
        self._swept_at = now
        over = [lane for lane, trying in self._trying.items() if _is_over(trying.ownership, now)]
        for lane in over:
            del self._trying[lane]
            if self._verdicts is not None:
                self._verdicts.forget(lane)


def _is_over(ownership: QueueOwnership | None, now: float) -> bool:
    """Whether a queue was lost, or released: then its lock is renewed no more."""
    return ownership is not None and (ownership.lost.is_set() or ownership.deadline <= now)


# --- the events: each says where, and none shows a body -------------------------------------------


_GAP = {"order_gap": "later messages of its key go on without it"}


class Events:
    """Logs what becomes of messages: docs/reference/events.md has the table. Thread-safe."""

    def __init__(self) -> None:
        self._log = get_logger("orderly.listener")

    def retry(
        self,
        delivery: Delivery,
        failed: FailedCall,
        verdict: PoisonVerdict | None,
        seconds: float,
        *,
        in_place: bool,
    ) -> None:
        """A failed message waits for `seconds` and is tried again."""
        self._log.warning(
            "message.retry",
            **delivery.at,
            **_of(failed),
            seconds=round(seconds, 3),
            in_place=in_place,
            finding=None if verdict is None else verdict.finding.name,
            because=None if verdict is None else verdict.reason.name,
            not_yet=None if verdict is None else verdict.reason.value,
            exc_info=failed.error,
        )

    def poison(
        self,
        delivery: Delivery,
        failed: FailedCall,
        verdict: PoisonVerdict,
        policy: str,
        outcome: Outcome,
    ) -> None:
        """A message was found poisoned: why, on what evidence, and what is done with it.

        A parked key is the consumer's event, which has all of these fields: the consumer knows
        whether that succeeded.
        """
        if isinstance(outcome, Park):
            return
        self._log.error(
            "message.poison",
            **delivery.at,
            **_of(failed),
            message_id=delivery.message.message_id,
            because=verdict.reason.name,
            evidence=asdict(verdict.evidence),
            policy=policy,
            outcome=type(outcome).__name__,
            **(_GAP if isinstance(outcome, DeadLetter | Skip) else {}),
            exc_info=failed.error,
        )

    def blocked(self, delivery: Delivery, reason: str, seconds: float) -> None:
        """A message holds its lane up until it succeeds."""
        self._log.error("message.blocked", **delivery.at, reason=reason, seconds=round(seconds, 3))

    def skipped(self, delivery: Delivery, reason: str, failed: FailedCall | None) -> None:
        """A message is given up: all that is needed to find it, and to prove which one it was."""
        message = delivery.message
        fields = delivery.at | ({} if failed is None else _of(failed)) | {"reason": reason}
        self._log.error(
            "message.skipped",
            **fields,
            message_id=message.message_id,
            offset_message_id=message.offset_message_id,
            keys=[key_text(key) for key in message.keys],
            born_time=message.born_time,
            store_time=message.store_time,
            body_bytes=len(message.raw_body),
            body_sha256=hashlib.sha256(message.raw_body).hexdigest(),
        )

    def replay_failed(self, delivery: Delivery, failed: FailedCall) -> None:
        """A message failed while it was replayed, or on a dry run."""
        self._log.warning(
            "message.replay_failed",
            **delivery.at,
            **_of(failed),
            dry_run=delivery.context.dry_run,
            exc_info=failed.error,
        )

    def policy_failed(self, delivery: Delivery, text: str, error: Exception | None) -> None:
        """The user's policy gave no outcome."""
        self._log.error("poison_policy.failed", **delivery.at, reason=text, exc_info=error)

    def rule_failed(self, delivery: Delivery, error: Exception) -> None:
        """One of the rules of `retry` raised."""
        self._log.error("retry_rule.raised", **delivery.at, exc_info=error)

    def not_renewed(self, delivery: Delivery, text: str) -> None:
        """The lock could not be renewed before a retry."""
        self._log.warning("message.retry_put_off", **delivery.at, error=text)

    def circuits(
        self, group: str, opened: Iterable[str | None], closed: Iterable[str | None]
    ) -> None:
        """Circuits opened or closed; None holds all keys, a fingerprint those that fail so."""
        for fingerprint in opened:
            self._log.warning("circuit.opened", **where(group), fingerprint=fingerprint)
        for fingerprint in closed:
            self._log.info("circuit.closed", **where(group), fingerprint=fingerprint)


def _of(failed: FailedCall) -> dict[str, Any]:
    digest, text = failed.fingerprint.digest, failed.fingerprint.text
    return {"reason": failed.text, "fingerprint": digest, "fingerprint_text": text}


# --- what is done with a poisoned message ---------------------------------------------------------


_NAMED: dict[str, type[Block | DeadLetter | Skip | Park]] = {
    "block": Block,
    "dead_letter": DeadLetter,
    "skip": Skip,
    "park_key": Park,
}


def outcome_of(
    policy: OnPoison, delivery: Delivery, failed: FailedCall, verdict: PoisonVerdict, events: Events
) -> Outcome:
    """Return what the policy does with the message, and log it.

    Args:
        policy: of the settings.
        delivery: of the message.
        failed: its last try.
        verdict: that found it poisoned.
        events: logs it.
    """
    if isinstance(policy, str):
        name: str = policy
        outcome: Outcome = _NAMED[name](verdict.reason.value)
    else:
        name = str(getattr(policy, "__qualname__", type(policy).__qualname__))
        outcome = _asked(policy, delivery, verdict, events)
    events.poison(delivery, failed, verdict, name, outcome)
    return outcome


def _asked(policy: Policy, delivery: Delivery, verdict: PoisonVerdict, events: Events) -> Outcome:
    """Ask the user's policy; if that fails, the message blocks: nothing is lost."""
    raised: Exception | None = None
    try:
        attempt = Attempt(delivery.message, delivery.context)
        outcome = policy(delivery.message, attempt, verdict)
        longest = delivery.context.max_suspend
        if isinstance(outcome, FINAL | Fail) and not too_long(outcome, longest):
            return outcome
        text = f"answered {outcome if isinstance(outcome, Suspend) else type_text(outcome)}"
    except Exception as error:  # noqa: BLE001 - a user's function may do anything
        raised, text = error, error_text(error)
    events.policy_failed(delivery, text, raised)
    return Block(verdict.reason.value)


# --- the policy: the rules, the memory and the events put together --------------------------------


class FailurePolicy:
    """Thread-safe.

    Args:
        rules: the listener's.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._groups: dict[str, FailureMemory] = {}
        self._lock = threading.Lock()
        self._events = Events()

    def memory(self, group: str) -> FailureMemory:
        """Return what is remembered for a group."""
        memory = self._groups.get(group)
        if memory is None:
            with self._lock:
                memory = self._groups.setdefault(group, FailureMemory(self._rules.poison))
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
        if isinstance(tried, FailedCall):
            delivery.context.fingerprint = tried.fingerprint
            return self._failed(delivery, tried, memory, now)
        if isinstance(tried, Ack):
            memory.succeeded(delivery.lane, now)
            if memory.holding:
                self._log_circuits(delivery, memory)
            return Decision(tried)
        memory.passed(delivery.lane)
        return self._carry_out(delivery, tried, None)

    def _replayed(self, delivery: Delivery, tried: Tried) -> Decision:
        """A replay is done or it is not: it feeds no verdict, and no policy is applied."""
        if isinstance(tried, Ack):
            return Decision(tried)
        if isinstance(tried, FailedCall):
            self._events.replay_failed(delivery, tried)
            return Decision(Fail(tried.fingerprint.text))
        return Decision(Fail(f"answered {type(tried).__name__}"))

    def _failed(
        self, delivery: Delivery, failed: FailedCall, memory: FailureMemory, now: float
    ) -> Decision:
        policy = self._rules.policy_for(failed)
        case = memory.failed(delivery, failed, now, policy)
        self._log_circuits(delivery, memory)
        verdict = case.verdict
        if verdict is not None and verdict.finding is Finding.POISON:
            outcome = outcome_of(policy, delivery, failed, verdict, self._events)
            if not isinstance(outcome, Block | Suspend | Fail):
                case.trying.condemned = failed.fingerprint.digest, verdict
                memory.passed(delivery.lane)
            return self._carry_out(delivery, outcome, failed, verdict)
        return self._again(delivery, failed, case, now)

    def _again(
        self, delivery: Delivery, failed: FailedCall, case: JudgedFailure, now: float
    ) -> Decision:
        outage = case.verdict is not None and case.verdict.finding is Finding.OUTAGE
        soon = None if outage else self._soon(delivery, failed, case.trying, now)
        seconds = max(self._later(case), failed.asked or 0.0) if soon is None else soon
        seconds = _allowed(delivery, seconds)
        case.trying.retrying = soon is not None
        case.trying.waited += seconds if soon is not None else 0.0
        if case.verdict is not None:
            delivery.context.because = case.verdict.reason.value
        self._events.retry(delivery, failed, case.verdict, seconds, in_place=soon is not None)
        return self._wait(delivery, seconds)

    def _soon(
        self, delivery: Delivery, failed: FailedCall, trying: UnsettledMessage, now: float
    ) -> float | None:
        """Seconds until a retry; None: no retry."""
        if failed.kind is FailureKind.FATAL:
            return None
        try:
            return self._rules.retry.next_wait(
                failed, delivery.number, trying.first_at, trying.waited, now
            )
        except Exception as error:  # noqa: BLE001 - a rule of the user's may do anything
            self._events.rule_failed(delivery, error)
            return None

    def _later(self, case: JudgedFailure) -> float:
        """Seconds until the next try once there are no more retries."""
        if case.verdict is not None:
            return case.verdict.wait * (0.75 + _chance() / 4)
        case.trying.suspended += 1
        return self._growing(case.trying.suspended)

    def _carry_out(
        self,
        delivery: Delivery,
        outcome: Outcome,
        failed: FailedCall | None,
        verdict: PoisonVerdict | None = None,
    ) -> Decision:
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
                delivery.context.because = reason
                return Decision(outcome, wait=seconds)
            case Park(reason):
                failure = _failure(reason, delivery, failed, memory.trying(delivery), verdict)
                return Decision(outcome, failure=failure)
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

    def _log_circuits(self, delivery: Delivery, memory: FailureMemory) -> None:
        self._events.circuits(delivery.context.group, *memory.changed_circuits())


def _allowed(delivery: Delivery, seconds: float) -> float:
    return min(max(seconds, MIN_SUSPEND), delivery.context.max_suspend)


def _chance() -> float:
    return random.random()  # noqa: S311 - it spreads waits


def _failure(
    reason: str,
    delivery: Delivery,
    failed: FailedCall | None,
    trying: UnsettledMessage | None,
    verdict: PoisonVerdict | None,
) -> Failure:
    return Failure(
        reason,
        attempts=delivery.number,
        fingerprint=None if failed is None else failed.fingerprint.text,
        first_error=None if trying is None else trying.first_error,
        last_error=None if failed is None else failed.text,
        error=None if failed is None else failed.error,
        evidence=None if verdict is None else asdict(verdict.evidence),
    )
