"""May messages go once more into the topic they came from? Pure.

The copies are stored at the end of the topic, so each group handles them after everything that is
stored now. Where a group has already consumed later messages of one of these keys, that key's
order is broken for it: new state first, old state last. What a group consumed of messages that the
table does not hold is not known, and is taken for the worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orderly.errors import ConfigError
from orderly.model import MessageQueue

Committed = Mapping[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class Later:
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


def elsewhere(groups: Mapping[str, Committed], known: Iterable[MessageQueue]) -> list[Later]:
    """The queues that the table does not know: where keys went on when the topic grew."""
    seen = {queue for committed in groups.values() for queue in committed}
    return [Later(queue, None, 0) for queue in sorted(seen.difference(known))]


def objections(groups: Mapping[str, Committed], queues: Iterable[Later]) -> tuple[Objection, ...]:
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
            f"{found[0]}{more}: the old ones would come behind, out of order; send into another"
            " topic, or say --after-consumed if the consumers can take it; nothing was sent"
        )


def _objects(committed: int, later: Later) -> list[bool]:
    if later.first is not None and committed > later.first:
        return [True]
    return [False] if committed > later.end else []
