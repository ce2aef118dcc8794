"""PURE: what an answer of the function means, and what becomes of the message.

    answer of the last attempt      below the limit      at the limit
    Ack                             go on                go on
    Suspend(seconds)                wait `seconds`       wait `seconds`
    Suspend()                       growing wait         growing wait
    DeadLetter, Block               as answered          as answered
    failed (raise, Fail, foreign)   growing wait         `then`: DeadLetter or Block
    failed by a fatal exception     `then`               `then`

Block is a wait of `max_suspend` with a problem to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.listener.outcomes import Block
from orderly.listener.rules import Rules
from orderly.ordering.outcomes import Ack, DeadLetter, Fail, Suspend


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed. `fatal`: no other attempt helps."""

    reason: str
    fatal: bool = False


Tried = Ack | Suspend | DeadLetter | Block | Failed
"""What an attempt came to."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Suspend the queue, or the key. `problem` says what blocks it, None: nothing to report."""

    seconds: float
    problem: str | None = None


Decision = Ack | Wait | DeadLetter


def read_answer(answer: object, longest: float) -> Tried:
    """Return the answer if it is a final one; anything else is a failed attempt.

    The reason names a foreign value's type only: the value may be the message's body.

    Args:
        answer: of the function.
        longest: seconds that the consumer lets a message wait.
    """
    if isinstance(answer, Suspend) and answer.seconds is not None and answer.seconds > longest:
        return Failed(f"answered Suspend({answer.seconds:g}); {longest:g} s is the longest here")
    if isinstance(answer, Ack | Suspend | DeadLetter | Block):
        return answer
    if isinstance(answer, Fail):
        return Failed(answer.reason)
    kind = answer.__name__ if isinstance(answer, type) else type(answer).__name__
    return Failed(f"answered {kind}, which is no outcome; `return Ack()` acknowledges")


def decide(answer: Tried, failures: int, rules: Rules) -> Decision:
    """Return what becomes of the message.

    Args:
        answer: of the delivery's last attempt.
        failures: deliveries of the message that failed before this one.
        rules: the listener's.
    """
    match answer:
        case Failed(reason, fatal):
            if fatal or rules.at_limit(failures):
                return _settled(rules.then(reason), rules)
            return Wait(rules.wait(failures))
        case Suspend(seconds):
            return Wait(rules.wait(failures) if seconds is None else seconds)
        case _:
            return _settled(answer, rules)


def _settled(answer: Ack | DeadLetter | Block, rules: Rules) -> Decision:
    if isinstance(answer, Block):
        return Wait(rules.max_suspend, problem=answer.reason)
    return answer
