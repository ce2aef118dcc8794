"""The commands of `orderly` by task, and their exit codes.

What a command is about comes first: `orderly locks GROUP`, `orderly tail TOPIC`. -g and -t narrow
down what a command shows of other groups or topics. An option means the same wherever it is.

A command's module is imported when the command is called. What the exit codes mean is one table,
for help, docs and tests. 0, 1 and 2 are the command's verdict; 0 also means "done". 3 means not
measured or not done: usage errors, no connection, interrupted, a bug. It is possible everywhere. A
code that a command lists says what else it means there.
"""

from __future__ import annotations

from collections.abc import Mapping

TASKS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": (
            "orderly.cli.demo",
            "Real flights through a real broker, and a verdict on the order.",
        ),
        "run": ("orderly.cli.run", "Run your consumers until SIGTERM or Ctrl-C; serve probes."),
        "broker": ("orderly.cli.broker", "A local RocketMQ broker: start, stop, status, logs."),
        "topic": ("orderly.cli.topic", "Topics: list, show, create, grow, delete them."),
        "send": ("orderly.cli.send", "Send messages in order, by sharding key."),
        "context": ("orderly.cli.context", "Named settings: list them, choose one, show them."),
        "completion": ("orderly.cli.completion", "Shell completion for bash, zsh or fish."),
    },
    "Watch": {
        "backlog": ("orderly.cli.backlog", "How far behind groups are, and why; alert on it."),
        "locks": ("orderly.cli.locks", "Which member of a group holds which queue."),
        "tail": ("orderly.cli.tail", "Read a topic without joining a group."),
        "exporter": ("orderly.cli.exporter", "Metrics, JSON and a page about backlogs, over HTTP."),
    },
    "Repair": {
        "doctor": ("orderly.cli.doctor", "Check this installation, the cluster and a consumer."),
        "parked": ("orderly.cli.parked", "Keys set aside: list, show, add, release, drop, export."),
        "dlq": ("orderly.cli.dead_letters", "A group's dead letters: list them, send them again."),
        "offsets": ("orderly.cli.offsets", "A group's offsets: show them, set them."),
        "group": ("orderly.cli.group", "Consumer groups: list them, delete them."),
    },
    "Measure": {
        "skew": ("orderly.cli.skew", "How evenly a topic's queues are filled; its largest keys."),
        "placement": (
            "orderly.cli.placement",
            "Do all producers place keys alike? Is a key's order at risk?",
        ),
        "bench": ("orderly.cli.bench", "Measure your cluster's speed with this library."),
        "spark": ("orderly.cli.root", "Jobs over whole topics: order audit, replay."),
    },
}
"""By task, then by name: where the command is (see `LazyGroup`), and a line about it."""

COMMANDS = {name: command for task in TASKS.values() for name, command in task.items()}


NOT_MEASURED = 3


# --- exit codes -----------------------------------------------------------------------------------


GENERAL: Mapping[int, str] = {
    0: "done, or nothing is wrong",
    1: "the command's verdict: a warning, or something was found",
    2: "the command's verdict: critical",
    NOT_MEASURED: "not measured or not done: wrong usage, no connection, interrupted, a bug",
}

_DONE = {0: "done", 3: "not done"}
_DELETED = {0: "deleted; with --dry-run: shown", 3: "refused, or not all of it is deleted"}
_SHOWN = {0: "shown", 3: "could not be read"}
_READ = {0: "all was read", 3: "a queue or a broker could not be read; the rest is shown"}
CODES: Mapping[str, Mapping[int, str]] = {
    "demo": {
        0: "in order and complete",
        1: "out of order or incomplete",
        3: "could not be measured",
    },
    "run": {
        0: "ended by Ctrl-C or SIGTERM, or closed by your program: offsets saved, queues free",
        1: "ended while a handler still ran at close_timeout, or without a broker's answer: a queue"
        " is locked for up to 60 s",
        3: "a consumer was not found, or could not be started",
    },
    "broker start": {0: "it runs", 3: "it could not be started, or runs with other options"},
    "broker stop": {0: "it is stopped, or did not run", 3: "it could not be stopped"},
    "broker status": {0: "it runs", 1: "it does not run", 3: "not known"},
    "broker logs": {0: "shown", 3: "there is no such log"},
    "broker fake": {0: "ended by Ctrl-C or SIGTERM", 3: "it could not be started"},
    "backlog list": _READ,
    "backlog describe": _READ,
    "backlog watch": {0: "ended, or all rounds are done", 3: "it could not start"},
    "backlog check": {
        0: "OK, or below --fail-on",
        1: "WARNING; with --fail-on: that verdict or a worse one",
        2: "CRITICAL",
        3: "UNKNOWN: never committed, could not be read, or nothing could be measured",
    },
    "backlog explain": _READ,
    "backlog report": {
        0: "written",
        3: "not written; or a queue or a broker could not be read, and the rest is written",
    },
    "skew": {0: "shown", 3: "a broker could not be read; the rest is shown"},
    "placement": {
        0: "nothing found",
        1: "a key was seen in several queues, or keys were placed in several ways",
        3: "no message with a key was read; or a broker failed and the others show nothing wrong",
    },
    "locks": {
        0: "all queues are locked by one member each, or nobody is online",
        1: "a queue is not locked, or several members claim it",
        3: "something is not known",
    },
    "exporter": {0: "ended by Ctrl-C or SIGTERM", 3: "it could not start"},
    "group list": _READ,
    "group delete": _DELETED,
    "offsets show": {0: "shown", 3: "a queue could not be read; the rest is shown"},
    "offsets reset": {0: "done", 3: "refused, or not done in all queues"},
    "parked list": {0: "all queues read, parked keys or not", 3: "a queue could not be read"},
    "parked show": _SHOWN,
    "parked add": {
        0: "parked; with --dry-run: it would be",
        3: "not done, or a queue's owner did not answer",
    },
    "parked release": {
        0: "released; with --dry-run: all would be",
        1: "stopped at a failure, or one would fail",
        3: "not done",
    },
    "parked drop": {0: "dropped", 3: "not done"},
    "parked export": {0: "written", 3: "not written"},
    "parked keepalive": {0: "done", 3: "not done in all queues"},
    "dlq list": {0: "shown, or there are none", 3: "could not be read"},
    "dlq replay": {0: "all sent", 3: "only some were sent, or none"},
    "spark audit": {
        0: "in order",
        1: "the order is broken, or messages are repeated",
        3: "not known: no messages, no keys, or some messages were already deleted",
    },
    "spark replay": {
        0: "no objection to the plan; with --send: all is sent",
        1: "an objection to the plan; with --send also: messages are missing at the end",
        3: "not done",
    },
    "spark bundle": {0: "written", 3: "not written"},
    "topic create": {0: "the topic exists", 3: "not created, or it exists with other settings"},
    "topic list": _SHOWN,
    "topic show": {0: "shown", 3: "a broker could not be asked; the rest is shown"},
    "topic delete": _DELETED,
    "topic grow": {0: "done, or nothing to do", 3: "refused, not drained in time, or failed"},
    "send": {0: "all were stored", 3: "not all were stored"},
    "bench": {
        0: "measured",
        1: "messages failed or came out of order",
        3: "not measured, or only in part: messages did not arrive, or it was interrupted",
    },
    "tail": {0: "read to the end, the limit, or Ctrl-C with --follow", 3: "could not be read"},
    "doctor": {
        0: "nothing is wrong",
        1: "warnings: it works, but look at them",
        2: "something cannot be used, or would be refused",
        3: "something did not answer",
    },
    "context list": _SHOWN,
    "context use": _DONE,
    "context show": _SHOWN,
    "completion": {0: "printed", 3: "no such shell"},
}
"""By the words of a command."""


def codes_of(command: str) -> Mapping[int, str]:
    """What the codes of a command mean, as "backlog check"; of a group nothing."""
    return CODES.get(command, {})
