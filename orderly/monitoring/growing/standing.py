"""How far a topic is drained: what was written to it, and which group has not finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orderly.model import MessageQueue


@dataclass(frozen=True, slots=True)
class Behind:
    """A group that keeps the topic from being drained.

    Attributes:
        group: its name at the brokers.
        messages: that it has not finished; None: not known.
        why: what else there is to say; "" if nothing.
    """

    group: str
    messages: int | None
    why: str = ""

    def __str__(self) -> str:
        count = "an unknown number of" if self.messages is None else str(self.messages)
        return f"{self.group}: {count} messages" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True)
class Standing:
    """One look at a topic.

    Attributes:
        written: the offset after the newest message, of each queue.
        behind: groups that have not finished, sorted; none: it is drained.
    """

    written: Mapping[MessageQueue, int]
    behind: tuple[Behind, ...] = ()


def new_messages(before: Standing, after: Standing) -> int:
    """How many messages were written between two looks."""
    return sum(end - before.written.get(queue, 0) for queue, end in after.written.items())
