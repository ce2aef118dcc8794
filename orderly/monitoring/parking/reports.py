"""What is told of parked keys as values: the list, and what came of keeping and of writing them."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.model import MessageQueue
from orderly.monitoring.parking.commands import Outcome
from orderly.monitoring.parking.queues import Unknown
from orderly.ordering.parking.keys import Key
from orderly.protocol.park_record import Parked


@dataclass(frozen=True, slots=True)
class KeyReport:
    """One parked key.

    Attributes:
        queue: the source queue.
        key: the key.
        messages, size: how many are parked, and their bytes; 0 also if the broker has deleted them.
        recorded: how many the owners counted.
        gone: how many of those may be gone, where the broker is seen to have deleted some of the
            park queue, or some of it is damaged; else 0.
        first: the first message that waits, with what is known of its failure; None: gone.
        last_offset: source offset of the last one; None: gone.
        expires: seconds since the epoch: before that the broker deletes none of them by age; None:
            not known.
    """

    queue: MessageQueue
    key: Key
    messages: int
    size: int
    recorded: int
    gone: int
    first: Parked | None
    last_offset: int | None
    expires: float | None


@dataclass(frozen=True, slots=True)
class Listing:
    """What is parked.

    Attributes:
        keys: by topic, queue and key.
        read: the source queues looked at: those on brokers that the name server lists.
        unknown: queues that could not be read.
    """

    keys: tuple[KeyReport, ...]
    read: tuple[MessageQueue, ...]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Added:
    """What came of having a key parked.

    Attributes:
        outcomes: of the queues in which it waits, or where it was refused: why.
        read: the source queues whose owners answered.
        unknown: those whose owners did not, and why, as far as that is known.
    """

    outcomes: tuple[Outcome, ...]
    read: tuple[MessageQueue, ...]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Renewal:
    """What `keepalive` did.

    Attributes:
        appended: messages that were appended again.
        unknown: queues in which something failed: what is old there may still be old.
    """

    appended: int
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Exported:
    """What `export` did.

    Attributes:
        messages: in the file.
        gone: messages that the owners counted, and that may be gone; see `KeyReport`.
    """

    messages: int
    gone: int
