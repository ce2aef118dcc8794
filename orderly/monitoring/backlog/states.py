"""What a queue's state can be, as one group sees it, and how bad each is.

The order of the members is the order of the rules: of several that apply, the first counts. What
is critical comes before what is worth a warning, so nothing hides what is worse. Parked keys are
not a state: a queue can have them in any state.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum


class QueueState(StrEnum):
    """One word for a queue of a group. What comes first wins."""

    UNKNOWN = "UNKNOWN"  # it could not be read; never taken for 0
    NOT_APPLICABLE = "NOT_APPLICABLE"  # broadcasting: members keep their offsets themselves
    LOST = "LOST"  # committed below the minimum: deleted before anybody consumed it
    OFFLINE = "OFFLINE"  # a backlog, and no member of the group is connected
    ORPHAN = "ORPHAN"  # members are connected, and none of them reads the queue
    BLOCKED = "BLOCKED"  # a handler works on the first message and does not return
    EXPIRING = "EXPIRING"  # half of the time is over for which the first message is kept
    STALL = "STALL"  # a backlog, and nothing was finished in the window
    NEW = "NEW"  # never committed: where the group will start is its own setting
    MIXED = "MIXED"  # the group's members subscribe to different topics or filters
    RECREATED = "RECREATED"  # the topic was created again: the group has not resumed, or just now
    AHEAD = "AHEAD"  # committed above the maximum: the cause is not known
    UNLOCKED = "UNLOCKED"  # no member holds the broker's lock on the queue
    SUSPENDED = "SUSPENDED"  # the first message is tried again and again
    REWIND = "REWIND"  # the committed offset went back within the window
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
    QueueState.LOST: Verdict.CRITICAL,
    QueueState.OFFLINE: Verdict.CRITICAL,
    QueueState.ORPHAN: Verdict.CRITICAL,
    QueueState.BLOCKED: Verdict.CRITICAL,
    QueueState.EXPIRING: Verdict.CRITICAL,
    QueueState.STALL: Verdict.CRITICAL,
    QueueState.NEW: Verdict.UNKNOWN,
    QueueState.MIXED: Verdict.WARNING,
    QueueState.RECREATED: Verdict.WARNING,
    QueueState.AHEAD: Verdict.WARNING,
    QueueState.UNLOCKED: Verdict.WARNING,
    QueueState.SUSPENDED: Verdict.WARNING,
    QueueState.REWIND: Verdict.WARNING,
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


# --- what each state means, in a few words --------------------------------------------------------


MEANINGS = {
    QueueState.UNKNOWN: "it could not be read",
    QueueState.NOT_APPLICABLE: "broadcasting: members keep their offsets themselves",
    QueueState.RECREATED: "the topic was deleted and created again",
    QueueState.NEW: "never committed",
    QueueState.MIXED: "the members subscribe to different topics or filters",
    QueueState.LOST: "messages were deleted before they were consumed",
    QueueState.AHEAD: "committed beyond the log",
    QueueState.OFFLINE: "no member is connected",
    QueueState.ORPHAN: "members are connected, but none reads the queue",
    QueueState.UNLOCKED: "no member holds the broker's lock on the queue",
    QueueState.BLOCKED: "the handler of the first message does not return",
    QueueState.EXPIRING: "the broker will soon delete the first message",
    QueueState.SUSPENDED: "the first message fails and is tried again and again",
    QueueState.REWIND: "the committed offset went back",
    QueueState.STALL: "nothing is finished",
    QueueState.GROWING: "the backlog never gets smaller",
    QueueState.LAGGING: "above a threshold, but getting smaller",
    QueueState.OK: "",
}
