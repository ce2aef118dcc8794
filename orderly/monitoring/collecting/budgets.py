"""How much one scan may ask beside the offsets, and whose turn it is. Pure.

What does not fit into a budget has its turn in a later scan; who waited longest comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Limits of one scan over the whole cluster.

    A group is asked about as a whole, so that all that is known of it is of one moment: the first
    one of a scan may be larger than a budget.

    Attributes:
        groups: whose members are asked for, at every broker.
        members: that are asked what they do; each question goes through a broker to the member.
        delays: (group, topic, broker) whose exact ages are asked for.
        heads: first unfinished messages that are read: two requests each.
        records: queues whose state records are read, beside those of groups that come first:
            most often five requests each.
        every: seconds until a group's turn comes again at the earliest.
    """

    groups: int = 64
    members: int = 32
    delays: int = 256
    heads: int = 20
    records: int = 32
    every: float = 30.0


T = TypeVar("T")
URGENT = 4.0  # what is urgent waits a quarter as long as the rest
_EARLY = 0.1  # of a wait that may be left: rounds do not begin to the millisecond


def longest_waiting(
    names: Iterable[str],
    asked_at: Callable[[str], float],
    now: float,
    *,
    every: float,
    first: Collection[str] = (),
    urgent: Collection[str] = (),
) -> list[str]:
    """Those whose turn has come, whoever waited longest first; nobody waits for ever.

    Args:
        names: of groups.
        asked_at: when a group was last asked about (seconds since the epoch); 0.0: never.
        now: seconds since the epoch.
        every: seconds between two turns of the same group.
        first: they come before all others.
        urgent: for them a second of waiting counts as URGENT.
    """

    def weight(name: str) -> tuple[bool, float, str]:
        waited = now - asked_at(name)
        return name not in first, -waited * (URGENT if name in urgent else 1.0), name

    due = [name for name in names if now - asked_at(name) >= every * (1 - _EARLY)]
    return sorted(due, key=weight)


def within(budget: int, wholes: Iterable[list[T]]) -> Iterator[list[T]]:
    """The first of `wholes`, complete ones only, while all their parts fit into the budget.

    The first that has a part is among them with any size, unless the budget is 0: otherwise
    it would never have its turn.
    """
    left = budget
    for whole in wholes:
        if not whole:
            continue
        if len(whole) > left and (left < budget or budget <= 0):
            return
        left -= len(whole)
        yield whole
