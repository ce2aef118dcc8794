"""May messages go once more into the topic they came from?

The copies are stored at the end of the topic, so each group handles them after everything that is
stored now. Where a group has already consumed later messages of one of these keys, that key's
order is broken for it: new state first, old state last. What a group consumed of messages that the
table does not hold is not known, and is taken for the worst.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orderly.client import Client
from orderly.client.pipeline import Pipeline
from orderly.errors import ConfigError, OrderlyError, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.collecting.questions import all_committed

_PATIENCE = 10.0  # seconds for all brokers


def committed_on(
    client: Client,
    topic: str,
    brokers: Collection[str] = (),
) -> dict[str, dict[MessageQueue, int]]:
    """Committed offsets by group and queue; what was never committed is absent.

    Args:
        client: asks.
        topic: as the broker names it.
        brokers: names of some that must be asked, though the topic's route has them no more.

    Raises:
        OrderlyError: one of the brokers does not answer: what it knows is not known.
    """
    masters: dict[str, str | None] = dict.fromkeys(brokers)
    masters |= {broker.broker_name: broker.master for broker in client.routes.get(topic).brokers}
    for name, master in masters.items():
        if master is None:
            raise RouteError(f"broker {name!r} has no master now, so the groups' offsets there are"
                             " not known; wait until it is back")  # fmt: skip
    questions = {master: [all_committed(None)] for master in masters.values() if master}
    answers = Pipeline(client.connections).ask_each(questions, time.monotonic() + _PATIENCE)
    found: dict[str, dict[MessageQueue, int]] = {}
    for name, master in masters.items():
        (answer,) = answers[master or ""]
        if isinstance(answer, OrderlyError):
            raise answer
        for (group, of_topic), offsets in answer.items():
            if of_topic == topic:
                queues = {MessageQueue(topic, name, at): it for at, it in offsets.items()}
                found.setdefault(group, {}).update(queues)
    return found


Committed = Mapping[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class LaterMessages:
    """What the table knows of a queue that holds selected messages, or later ones of their keys.

    Attributes:
        first: offset of the first message that comes after a selected one of its key, and is not
            selected itself; None: the table has none.
        end: up to where the table holds every message of the queue.
    """

    queue: MessageQueue
    first: int | None
    end: int


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a group speaks against it.

    Attributes:
        group: which has consumed.
        queue: what.
        known: whether the table shows a later message of a key among it.
    """

    group: str
    queue: MessageQueue
    known: bool

    def __str__(self) -> str:
        if self.known:
            return f"group {self.group} has consumed later messages of these keys in {self.queue}"
        return (
            f"group {self.group} has consumed messages of {self.queue} that the table does not"
            " hold, and of which keys they are is not known"
        )


def elsewhere(
    groups: Mapping[str, Committed], known: Iterable[MessageQueue]
) -> list[LaterMessages]:
    """The queues that the table does not know: where keys went on when the topic grew."""
    seen = {queue for committed in groups.values() for queue in committed}
    return [LaterMessages(queue, None, 0) for queue in sorted(seen.difference(known))]


def objections(
    groups: Mapping[str, Committed], queues: Iterable[LaterMessages]
) -> tuple[Objection, ...]:
    """What speaks against it, the known first.

    Args:
        groups: what each group has committed on the topic, by queue.
        queues: that hold selected messages, or later ones of their keys; or may.
    """
    found = [
        Objection(group, it.queue, known)
        for it in queues
        for group, committed in groups.items()
        for known in _objects(committed.get(it.queue, 0), it)
    ]
    return tuple(sorted(found, key=lambda each: (not each.known, each.group, each.queue)))


def require_none(found: Sequence[Objection]) -> None:
    """Refuse what would break a key's order.

    Raises:
        ConfigError: something speaks against it.
    """
    if found:
        more = f" (and {len(found) - 1} more such)" if found[1:] else ""
        raise ConfigError(
            f"{found[0]}{more}: the old messages would come after those, out of order; send to"
            " another topic, or give --after-consumed if the consumers tolerate that; nothing was"
            " sent"
        )


def _objects(committed: int, later: LaterMessages) -> list[bool]:
    if later.first is not None and committed > later.first:
        return [True]
    return [False] if committed > later.end else []
