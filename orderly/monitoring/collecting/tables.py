"""What a scan asks and reads of topics: their queues, minima and maxima. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from orderly.errors import RemotingError

Place = tuple[str, str]  # topic and broker


@dataclass(frozen=True, slots=True)
class Queues:
    """A topic's queues on one broker.

    Attributes:
        topic: its name.
        listed: how many there are by the topic's settings; None: not known.
        removed: further queues in which a group has an offset.
    """

    topic: str
    listed: int | None
    removed: tuple[int, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them."""
        return (*range(self.listed or 0), *self.removed)


@dataclass(slots=True)
class Table:
    """What was read of a topic on one broker, by queue id; what could not be read is missing."""

    minimum: dict[int, int] = field(default_factory=dict)
    maximum: dict[int, int] = field(default_factory=dict)
    stored_at: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class Spans:
    """What was read of all topics.

    Attributes:
        tables: by topic and broker.
        gone: topics that a broker says it does not have (any more).
        silent: the first failure of each broker that did not answer, by name.
    """

    tables: dict[Place, Table] = field(default_factory=lambda: defaultdict(Table))
    gone: set[Place] = field(default_factory=set)
    silent: dict[str, RemotingError] = field(default_factory=dict)
