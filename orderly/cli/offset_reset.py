"""A reset of a group's offsets, planned: where each queue goes.

The options and questions are in `offsets`. What was planned is what is sent: one offset for
each queue, so that the broker resets nothing the user has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orderly.cli.groups import queue_rows
from orderly.config import check_offset
from orderly.errors import ConfigError, GroupNotFound, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import QueueState

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import QueueStatus


@dataclass(frozen=True, slots=True)
class QueueReset:
    """One queue: where the group is (None: never committed), and where it shall be."""

    queue: MessageQueue
    minimum: int
    maximum: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Earliest:
    """To the oldest message of each queue."""

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  one question, four answers
        """The queue's minimum."""
        assert row.minimum is not None
        return row.minimum


@dataclass(frozen=True, slots=True)
class Latest:
    """To the end of each queue: what is there is skipped."""

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  see Earliest
        """The queue's maximum."""
        assert row.maximum is not None
        return row.maximum


@dataclass(frozen=True, slots=True)
class Moment:
    """To the first message stored at or after a time (seconds since the epoch)."""

    time: float

    def offset(self, client: Client, row: QueueStatus) -> int:
        """As the broker searches; a queue without such a message: its maximum."""
        assert row.minimum is not None
        assert row.maximum is not None
        found = client.brokers.search_offset(row.queue, self.time)
        return min(max(found, row.minimum), row.maximum)


@dataclass(frozen=True, slots=True)
class Exact:
    """One queue, to an offset."""

    broker: str
    queue_id: int
    value: int

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  see Earliest
        """The offset asked for."""
        assert row.minimum is not None
        assert row.maximum is not None
        check_offset(row.queue, self.value, row.minimum, row.maximum)
        return self.value


Target = Earliest | Latest | Moment | Exact


def plan(client: Client, group: str, topic: str, target: Target) -> list[QueueReset]:
    """Work out where each queue goes; sends nothing.

    Raises:
        ConfigError: the queue does not exist, or does not have the offset.
        RouteError: a queue's offsets could not be read.
    """
    rows = queue_rows(client, group, topic)
    if not rows:
        raise GroupNotFound(f"group {group} is unknown to the brokers: start its consumer first")
    if isinstance(target, Exact):
        rows = [_row_of(target, topic, rows)]
    return [_reset(client, target, row) for row in rows]


def _row_of(target: Exact, topic: str, rows: Sequence[QueueStatus]) -> QueueStatus:
    wanted = MessageQueue(topic, target.broker, target.queue_id)
    for row in rows:
        if row.queue == wanted:
            return row
    known = ", ".join(f"{row.queue.broker_name}:{row.queue.queue_id}" for row in rows)
    raise ConfigError(
        f"topic {topic} has no queue {target.broker}:{target.queue_id}; it has: {known or 'none'}"
    )


def _reset(client: Client, target: Target, row: QueueStatus) -> QueueReset:
    if row.state is QueueState.UNKNOWN or row.minimum is None or row.maximum is None:
        raise RouteError(
            f"the offsets of {row.queue} could not be read, so nothing was reset; try again when"
            " its broker answers"
        )
    after = target.offset(client, row)
    return QueueReset(row.queue, row.minimum, row.maximum, row.committed, after)
