"""What to do next about a queue's state: a sentence or two, and commands for a shell. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from orderly.foreign_text import is_hidden
from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.texts import key_command

# A sentence or two, then a command a line.
_ADVICE = {
    QueueState.UNKNOWN: "See whether broker {broker} runs and can be reached from here.",
    QueueState.NOT_APPLICABLE: "Ask the members: each keeps its own offsets.",
    QueueState.RECREATED: "Nothing, if members of ours had the queue: they begin at the first"
    " message of the new topic. For others set the group back:\norderly offsets reset {group}"
    " {topic} --to-earliest --dry-run",
    QueueState.NEW: "Start a member; where it begins is its own setting (consume_from; in"
    " Java consumeFromWhere).",
    QueueState.LOST: "What is deleted is gone here: get it from where it came from. Consume"
    " faster, or have the broker keep more (fileReservedTime).",
    QueueState.AHEAD: "If the topic was made anew, set the group back:\norderly offsets reset"
    " {group} {topic} --to-earliest --dry-run",
    QueueState.OFFLINE: "Start a member of the group.",
    QueueState.ORPHAN: "A member takes it within 20 s of joining. If it lasts, members subscribe to"
    " different topics: compare them.\norderly backlog describe {group}",
    QueueState.UNLOCKED: "Wait: the broker's lock of a member that died ends within 60 s. If it"
    " lasts, another process still renews it: end the one that hangs.",
    QueueState.BLOCKED: "See where the handler is: the stack of member {owner} shows it (jstack;"
    " py-spy dump). With handler_timeout a member of ours ends such calls by itself.",
    QueueState.EXPIRING: "Have it handled before it is deleted: mend the handler, or handle faster."
    " A larger fileReservedTime at the broker gives time. By key a member of ours parks the key at"
    " three quarters of it.",
    QueueState.SUSPENDED: "Mend what the handler needs, or the handler. Until then no later message"
    " of the queue is handled, by key none of this key; a listener with on_poison='park_key' sets"
    " the key aside by itself once it is sure.{add}",
    QueueState.REWIND: "Nothing, if somebody reset the offset on purpose: messages come again. If"
    " not, two members may commit the same queue.",
    QueueState.STALL: "Mend what the cause names. If it names nothing, see the log of member"
    " {owner}, and whether it is paused; restart it if it says nothing.",
    QueueState.GROWING: "Give the group more members (up to one a queue) or a faster handler; see"
    " whether one queue gets most of the inflow.",
    QueueState.LAGGING: "Nothing but wait: it is working it off.",
    QueueState.OK: "",
}

_ADD = " With order by key you can do that yourself:\n"
_PARKED = "When the cause is mended, have what is parked run in order:"

Steps = tuple[str, tuple[str, ...]]
"""What to do, and the commands for that: each works as it is, and must not be broken."""


def advice(row: QueueStatus) -> str:
    """What to do next about a queue, in one line; "" if all is well."""
    parked = parked_steps((row,)) if row.parked else ("", ())
    return " ".join(filter(None, map(in_one_line, (next_steps(row), parked))))


def in_one_line(steps: Steps) -> str:
    """The text, then its commands."""
    text, commands = steps
    return " ".join(filter(None, (text, "; ".join(commands))))


def next_steps(row: QueueStatus) -> Steps:
    """What to do next about its state; the text is "" if that is OK."""
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
        )
        .split("\n")
    )
    return text, tuple(commands)


def parked_steps(rows: Sequence[QueueStatus]) -> Steps:
    """What to do next about the parked keys of a group's queues: of one key it is named."""
    parked = [(row, key.key) for row in rows for key in row.parked or ()]
    one = _about("release", *parked[0]) if len(parked) == 1 else None
    if one is not None:
        return _PARKED, (one,)
    of_topics = dict.fromkeys(
        f"{shlex.quote(row.group)} -t {shlex.quote(row.queue.topic)}" for row, _ in parked
    )
    verbs = ("orderly parked list {}", "orderly parked release {} --all")
    return _PARKED, tuple(verb.format(of) for of in of_topics for verb in verbs)


def _about(verb: str, row: QueueStatus, key: str | int) -> str | None:
    """A command about a key; None: it is hidden, or nobody can copy it."""
    if is_hidden(key) or not str(key).isprintable():
        return None
    return key_command(verb, row.group, row.queue.topic, key)
