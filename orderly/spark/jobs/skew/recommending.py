"""Which number of queues to take, and why, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orderly.monitoring.skew.advice import percent
from orderly.monitoring.skew.what_if import Outcome
from orderly.spark.jobs.skew.evenness import bound

UNEVEN = 1.5  # busiest queue over the mean
_WORTH = 0.8  # what is left of the busiest queue's share, if a change is to be worth it
_CLOSE = 1.2  # times the bound: as even as keys allow


@dataclass(frozen=True, slots=True)
class Recommendation:
    """How many queues to have.

    Attributes:
        queues: how many.
        why: one sentence.
        change: it is another number than now.
    """

    queues: int
    why: str
    change: bool


def recommend(now: Outcome, outcomes: Sequence[Outcome], top_share: float) -> Recommendation:
    """Recommend a number of queues.

    Never fewer than now: that many consumers could no longer share the work.

    Args:
        now: what the producers' selector gives with the present number.
        outcomes: what it gives with others.
        top_share: of the most frequent key.
    """
    most = _busiest(now)
    if _over_mean(now) <= UNEVEN:
        return Recommendation(
            now.queues,
            f"Stay with {_queues(now.queues)}: the busiest gets {_over_mean(now):.2f} times the"
            " mean, and that is even enough.",
            change=False,
        )
    worth = [
        each
        for each in outcomes
        if each.queues > now.queues and each.skew and _busiest(each) <= _WORTH * most
    ]
    if not worth:
        return Recommendation(now.queues, _stay(now, top_share), change=False)
    even = [each for each in worth if _over_mean(each) <= _CLOSE * bound(top_share, each.queues)]
    best = min(even, key=lambda each: each.queues) if even else min(worth, key=_busiest)
    reason = "as even as these keys can lie" if even else "the best of the numbers tried"
    return Recommendation(
        best.queues,
        f"Take {_queues(best.queues)}: the busiest then gets {percent(_busiest(best))} of the"
        f" messages instead of {percent(most)} ({_over_mean(best):.2f} times the mean of so many),"
        f" {reason}.",
        change=True,
    )


def _stay(now: Outcome, top_share: float) -> str:
    """Why to stay, although it is uneven."""
    least = bound(top_share, now.queues)
    begin = f"Stay with {_queues(now.queues)}: the busiest gets {percent(_busiest(now))}, and no"
    if least > UNEVEN:
        return (
            f"{begin} larger number that was tried takes a fifth off it, because one key alone has"
            f" {percent(top_share)}."
        )
    return f"{begin} larger number that was tried takes a fifth off it."


def _busiest(outcome: Outcome) -> float:
    """Share of the busiest queue."""
    return outcome.skew.top_share if outcome.skew else 1.0


def _over_mean(outcome: Outcome) -> float:
    return outcome.skew.max_over_mean if outcome.skew else 1.0


def _queues(count: int) -> str:
    return f"{count} queue" if count == 1 else f"{count} queues"
