"""What a queue's state can be, as one group sees it, and how bad each is.

The order of the members is the order of the rules: of several that apply, the first counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum


class QueueState(StrEnum):
    """One word for a queue of a group. What comes first wins."""

    UNKNOWN = "UNKNOWN"  # it could not be read; never taken for 0
    NOT_APPLICABLE = "NOT_APPLICABLE"  # broadcasting: members keep their offsets themselves
    RECREATED = "RECREATED"  # the topic was made anew: not gone on in it yet, or just now
    NEW = "NEW"  # never committed: where the group will start is its own setting
    LOST = "LOST"  # committed below the minimum: deleted before anybody consumed it
    AHEAD = "AHEAD"  # committed above the maximum: of what cause is not known
    OFFLINE = "OFFLINE"  # a backlog, and no member of the group is connected
    ORPHAN = "ORPHAN"  # members are connected, and none of them has the queue
    UNLOCKED = "UNLOCKED"  # a member has it, but not the broker's lock
    BLOCKED = "BLOCKED"  # a handler works on the first message and does not return
    EXPIRING = "EXPIRING"  # half of the time is over for which the first message is kept
    SUSPENDED = "SUSPENDED"  # the first message is tried again and again
    PARKED = "PARKED"  # keys wait in the park topic until somebody releases them
    REWIND = "REWIND"  # the committed offset went back within the window
    STALL = "STALL"  # a backlog, and nothing was committed in the window
    GROWING = "GROWING"  # the backlog did not once get smaller in the window
    LAGGING = "LAGGING"  # above a threshold, but getting smaller
    OK = "OK"


class Verdict(IntEnum):
    """The value is the exit code of `orderly backlog check` (Monitoring Plugins guidelines)."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


VERDICTS = {
    QueueState.UNKNOWN: Verdict.UNKNOWN,
    QueueState.NOT_APPLICABLE: Verdict.OK,
    QueueState.RECREATED: Verdict.WARNING,
    QueueState.NEW: Verdict.UNKNOWN,
    QueueState.LOST: Verdict.CRITICAL,
    QueueState.AHEAD: Verdict.WARNING,
    QueueState.OFFLINE: Verdict.CRITICAL,
    QueueState.ORPHAN: Verdict.CRITICAL,
    QueueState.UNLOCKED: Verdict.WARNING,
    QueueState.BLOCKED: Verdict.CRITICAL,
    QueueState.EXPIRING: Verdict.CRITICAL,
    QueueState.SUSPENDED: Verdict.WARNING,
    QueueState.PARKED: Verdict.WARNING,
    QueueState.REWIND: Verdict.WARNING,
    QueueState.STALL: Verdict.CRITICAL,
    QueueState.GROWING: Verdict.WARNING,
    QueueState.LAGGING: Verdict.WARNING,
    QueueState.OK: Verdict.OK,
}

_SEVERITY = (Verdict.OK, Verdict.WARNING, Verdict.UNKNOWN, Verdict.CRITICAL)


def severity(verdict: Verdict) -> int:
    """How bad a verdict is, 0 for OK; not its exit code: UNKNOWN lies before CRITICAL."""
    return _SEVERITY.index(verdict)


_RANK = {state: (severity(VERDICTS[state]), -place) for place, state in enumerate(QueueState)}


def worst(states: Iterable[QueueState]) -> QueueState:
    """The worst of several states: the most severe verdict, then the first rule; OK of none.

    What was really seen to be critical wins over what could not be measured, and that wins over
    a warning: what is unknown can only be worse.
    """
    return max(states, key=_RANK.__getitem__, default=QueueState.OK)
