"""What to do next about a queue's state, in one sentence or two. Pure."""

from __future__ import annotations

import shlex

from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.states import QueueState

_ADVICE = {
    QueueState.UNKNOWN: "See whether broker {broker} runs and can be reached from here.",
    QueueState.NOT_APPLICABLE: "Ask the members: each keeps its own offsets.",
    QueueState.RECREATED: "Nothing, if members of ours had the queue: they begin at the first"
    " message of the new topic. For others set the group back: orderly offsets reset -g {group}"
    " -t {topic} --to-earliest --dry-run",
    QueueState.NEW: "Start a member; where it begins is its own setting (consume_from; in"
    " Java consumeFromWhere).",
    QueueState.LOST: "What is deleted is gone here: get it from where it came from. Consume"
    " faster, or have the broker keep more (fileReservedTime).",
    QueueState.AHEAD: "If the topic was made anew, set the group back: orderly offsets reset -g"
    " {group} -t {topic} --to-earliest --dry-run",
    QueueState.OFFLINE: "Start a member of the group.",
    QueueState.ORPHAN: "A member takes it within 20 s of joining. If it lasts, members subscribe to"
    " different topics: compare them in orderly backlog describe {group}",
    QueueState.UNLOCKED: "Wait: the broker's lock of a member that died ends within 60 s. If it"
    " lasts, another process still renews it: end the one that hangs.",
    QueueState.BLOCKED: "See where the handler is: the stack of member {owner} tells (jstack;"
    " py-spy dump). With handler_timeout a member of ours ends such calls by itself.",
    QueueState.EXPIRING: "Have it handled before it is deleted: mend the handler, or handle faster."
    " A larger fileReservedTime at the broker gives time. By key a member of ours parks the key at"
    " three quarters of it.",
    QueueState.SUSPENDED: "Mend what the handler needs, or the handler. Until then no later message"
    " of the queue is handled, by key none of this key; a listener with on_poison='park_key' sets"
    " the key aside by itself once it is sure.",
    QueueState.REWIND: "Nothing, if somebody reset the offset on purpose: messages come again. If"
    " not, two members may commit the same queue.",
    QueueState.STALL: "Mend what the cause names. If it names nothing, see the log of member"
    " {owner}, and whether it is paused; restart it if it tells nothing.",
    QueueState.GROWING: "Give the group more members (up to one a queue) or a faster handler; see"
    " whether one queue gets most of the inflow.",
    QueueState.LAGGING: "Nothing but wait: it is working it off.",
    QueueState.OK: "",
}

_PARKED = (
    "When the cause is mended: orderly parked list {group}; orderly parked release {group} KEY"
    " --dry-run"
)


def advice(row: QueueStatus) -> str:
    """What to do next; "" if all is well."""
    told = state_advice(row)
    return told if not row.parked else " ".join(filter(None, (told, parked_advice(row.group))))


def parked_advice(group: str) -> str:
    """What to do next about a group's parked keys."""
    return _PARKED.format(group=shlex.quote(group))


def state_advice(row: QueueStatus) -> str:
    """What to do next about its state alone; "" if that is OK."""
    queue = row.queue
    return _ADVICE[row.state].format(
        group=shlex.quote(row.group),
        topic=shlex.quote(queue.topic),
        broker=queue.broker_name,
        owner=row.owner or "(not known)",
    )
