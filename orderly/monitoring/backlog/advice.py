"""What to do next about a queue's state: a sentence or two, and commands for a shell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orderly.foreign_text import escaped, is_hidden, shell_word
from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.texts import key_command

# A sentence or two, then a command a line.
_ADVICE = {
    QueueState.UNKNOWN: "Check that broker {broker} runs and that this machine can reach it.",
    QueueState.NOT_APPLICABLE: "Ask the members: each keeps its own offsets.",
    QueueState.RECREATED: "If orderly members had the queue, do nothing: they begin at the first"
    " message of the new topic. For other members, set the group back:\norderly offsets reset"
    " {group} {topic} --to-earliest --dry-run",
    QueueState.NEW: "Start a member. Its own setting decides where it begins (consume_from; in"
    " Java consumeFromWhere).",
    QueueState.MIXED: "Give all members of the group the same topics and filters: deploy one"
    " version everywhere, or give each kind of member a group of its own. Messages that were passed"
    " over do not come again by themselves.\norderly doctor {group}",
    QueueState.LOST: "The broker cannot give deleted messages back: get them from their source."
    " Consume faster, or let the broker keep messages longer (fileReservedTime).",
    QueueState.AHEAD: "If the topic was deleted and created again, set the group back:\norderly"
    " offsets reset {group} {topic} --to-earliest --dry-run",
    QueueState.OFFLINE: "Start a member of the group.",
    QueueState.ORPHAN: "Change what the cause names; the first command says how. If no member has"
    " the queue: one takes it within 20 s of joining; if this lasts, members subscribe to different"
    " topics: compare them.\norderly doctor {group} -t {topic}\norderly backlog describe {group}",
    QueueState.UNLOCKED: "Wait: the lock of a dead member ends within 60 s. If this lasts, another"
    " process still renews the lock: end the process that hangs.",
    QueueState.BLOCKED: "Find out where the handler hangs: look at the stack of member {owner}"
    " (jstack; py-spy dump). With handler_timeout, an orderly member ends such calls itself.",
    QueueState.EXPIRING: "Handle the message before the broker deletes it: fix the handler, or make"
    " it faster. A larger fileReservedTime at the broker gives you time. With order by key, an"
    " orderly member parks the key after three quarters of that time.",
    QueueState.SUSPENDED: "Fix the handler, or what it depends on. Until then no later message of"
    " the queue is handled (with order by key: none of this key). A listener with"
    " on_poison='park_key' parks the key once it is sure.{add}",
    QueueState.REWIND: "If somebody reset the offset on purpose, do nothing: messages come again."
    " If not, two members can be committing the same queue.",
    QueueState.STALL: "Fix what the cause names. If it names nothing, look at the log of member"
    " {owner} and check whether it is paused; if you find nothing, restart it.",
    QueueState.GROWING: "Give the group more members (up to one per queue) or a faster handler."
    " Check whether one queue gets most of the messages.",
    QueueState.LAGGING: "Wait: the backlog is getting smaller.",
    QueueState.OK: "",
}

_ADD = " With order by key you can park it yourself:\n"
_PARKED = "When the cause is fixed, run the parked messages in order:"

Steps = tuple[str, tuple[str, ...]]
"""What to do, and the commands for that: each works as it is, and must not be broken."""


def advice(row: QueueStatus) -> str:
    """What to do next about a queue, in one line; "" if nothing is wrong."""
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
            group=shell_word(row.group),
            topic=shell_word(queue.topic),
            broker=escaped(queue.broker_name),
            owner=escaped(row.owner or "(not known)"),
            add="" if add is None else f"{_ADD}{add}",
        )
        .split("\n")
    )
    return text, tuple(commands)


def parked_steps(rows: Sequence[QueueStatus]) -> Steps:
    """What to do next about the parked keys of a group's queues; a single key is named."""
    parked = [(row, key.key) for row in rows for key in row.parked or ()]
    one = _about("release", *parked[0]) if len(parked) == 1 else None
    if one is not None:
        return _PARKED, (one,)
    of_topics = dict.fromkeys(
        f"{shell_word(row.group)} -t {shell_word(row.queue.topic)}" for row, _ in parked
    )
    verbs = ("orderly parked list {}", "orderly parked release {} --all")
    return _PARKED, tuple(verb.format(of) for of in of_topics for verb in verbs)


def _about(verb: str, row: QueueStatus, key: str | int) -> str | None:
    """A command about a key; None if the key is hidden or cannot be copied."""
    if is_hidden(key) or not str(key).isprintable():
        return None
    return key_command(verb, row.group, row.queue.topic, key)
