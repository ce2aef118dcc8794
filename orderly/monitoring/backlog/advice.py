"""What to do next about a queue's state: a sentence or two, and commands for a shell. Pure."""

from __future__ import annotations

import shlex

from orderly.foreign_text import is_hidden
from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.texts import key_command

# A sentence or two, then a command a line.
_ADVICE = {
    QueueState.UNKNOWN: "See whether broker {broker} runs and can be reached from here.",
    QueueState.NOT_APPLICABLE: "Ask the members: each keeps its own offsets.",
    QueueState.RECREATED: "Nothing, if members of ours had the queue: they begin at the first"
    " message of the new topic. For others set the group back:\norderly offsets reset -g {group}"
    " -t {topic} --to-earliest --dry-run",
    QueueState.NEW: "Start a member; where it begins is its own setting (consume_from; in"
    " Java consumeFromWhere).",
    QueueState.LOST: "What is deleted is gone here: get it from where it came from. Consume"
    " faster, or have the broker keep more (fileReservedTime).",
    QueueState.AHEAD: "If the topic was made anew, set the group back:\norderly offsets reset -g"
    " {group} -t {topic} --to-earliest --dry-run",
    QueueState.OFFLINE: "Start a member of the group.",
    QueueState.ORPHAN: "A member takes it within 20 s of joining. If it lasts, members subscribe to"
    " different topics: compare them.\norderly backlog describe {group}",
    QueueState.UNLOCKED: "The broker's lock of a former owner ends within 60 s. If it lasts,"
    " another process still renews it: end the one that hangs.",
    QueueState.BLOCKED: "See where the handler is: the stack of member {owner} tells (jstack;"
    " py-spy dump). With handler_timeout a member of ours ends such calls by itself.",
    QueueState.SUSPENDED: "Mend what the handler needs, or the handler. Until then no later message"
    " of the queue is handled, by key none of this key; a listener with on_poison='park_key' sets"
    " the key aside by itself once it is sure.{add}",
    QueueState.PARKED: "When the cause is mended, have what is parked run in order:\n{release}",
    QueueState.REWIND: "Nothing, if somebody reset the offset on purpose: messages come again. If"
    " not, two members may commit the same queue.",
    QueueState.STALL: "See the log of member {owner}, and whether it is paused; restart it if it"
    " tells nothing.",
    QueueState.GROWING: "Give the group more members (up to one a queue) or a faster handler; see"
    " whether one queue gets most of the inflow.",
    QueueState.LAGGING: "Nothing but wait: it is working it off.",
    QueueState.OK: "",
}


_ADD = " With order by key you can do that yourself:\n"


def advice(row: QueueStatus) -> str:
    """What to do next, in one line; "" if all is well."""
    text, commands = next_steps(row)
    return " ".join(filter(None, (text, "; ".join(commands))))


def next_steps(row: QueueStatus) -> tuple[str, tuple[str, ...]]:
    """What to do next, and the commands for that: each works as it is, and must not be broken."""
    queue, head = row.queue, row.head
    add = None if head is None or head.key is None else _about("add", row, head.key)
    text, *commands = (
        _ADVICE[row.state]
        .format(
            group=shlex.quote(row.group),
            topic=shlex.quote(queue.topic),
            broker=queue.broker_name,
            owner=row.owner or "(not known)",
            add="" if add is None else f"{_ADD}{add}",
            release=_release(row),
        )
        .split("\n")
    )
    return text, tuple(commands)


def _release(row: QueueStatus) -> str:
    """Of the one parked key; else all of them are looked at first."""
    one = None
    if row.parked is not None and len(row.parked) == 1:
        one = _about("release", row, row.parked[0].key)
    of = f"{shlex.quote(row.group)} -t {shlex.quote(row.queue.topic)}"
    return one or f"orderly parked list {of}\norderly parked release {of} --all"


def _about(verb: str, row: QueueStatus, key: str | int) -> str | None:
    """A command about a key; None: it is hidden, or nobody can copy it."""
    if is_hidden(key) or not str(key).isprintable():
        return None
    return key_command(verb, row.group, row.queue.topic, key)
