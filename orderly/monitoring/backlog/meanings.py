"""What each state of a queue means, in a few words."""

from __future__ import annotations

from orderly.monitoring.backlog.states import QueueState

MEANINGS = {
    QueueState.UNKNOWN: "it could not be read",
    QueueState.NOT_APPLICABLE: "broadcasting: members keep their offsets themselves",
    QueueState.RECREATED: "the topic was deleted and made anew",
    QueueState.NEW: "never committed",
    QueueState.LOST: "messages were deleted before they were consumed",
    QueueState.AHEAD: "committed beyond the log",
    QueueState.OFFLINE: "no member is connected",
    QueueState.ORPHAN: "members are connected, none has the queue",
    QueueState.UNLOCKED: "no member has the broker's lock of it",
    QueueState.BLOCKED: "a handler works on the first message and does not return",
    QueueState.EXPIRING: "the broker deletes the first message before long",
    QueueState.SUSPENDED: "the first message is tried again and again",
    QueueState.REWIND: "the committed offset went back",
    QueueState.STALL: "nothing is finished",
    QueueState.GROWING: "the backlog never gets smaller",
    QueueState.LAGGING: "above a threshold, but getting smaller",
    QueueState.OK: "",
}
