"""PURE: what an answer of the function means, and what becomes of the message.

    answer of the last attempt      below the limit      at the limit
    Done                            go on                go on
    Suspend(seconds)                wait `seconds`       wait `seconds`
    Suspend()                       growing wait         growing wait
    DeadLetter, Block               as answered          as answered
    failed (raise, Again, foreign)  growing wait         `then`: DeadLetter or Block
    failed by a fatal exception     `then`               `then`

Block is a wait of `max_suspend` with a problem to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.listener.outcomes import Again, Block, DeadLetter, Done, Suspend
from orderly.listener.rules import Rules


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed. `fatal`: no other attempt helps."""

    reason: str
    fatal: bool = False


Answer = Done | Suspend | DeadLetter | Block | Failed


@dataclass(frozen=True, slots=True)
class Wait:
    """Suspend the queue for `seconds`. `problem` says what blocks it, None: nothing to report."""

    seconds: float
    problem: str | None = None


Decision = Done | Wait | DeadLetter


def read_answer(answer: object) -> Answer:
    """Return the answer if it is a final one; anything else is a failed attempt.

    The reason names the value's type only: the value may be the message's body.
    """
    if isinstance(answer, Done | Suspend | DeadLetter | Block):
        return answer
    if isinstance(answer, Again):
        return Failed("answered Again")
    kind = answer.__name__ if isinstance(answer, type) else type(answer).__name__
    return Failed(f"answered {kind}, which is no outcome; `return Done()` acknowledges")


def decide(answer: Answer, failures: int, rules: Rules) -> Decision:
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


def _settled(answer: Done | DeadLetter | Block, rules: Rules) -> Decision:
    if isinstance(answer, Block):
        return Wait(rules.max_suspend, problem=answer.reason)
    return answer
