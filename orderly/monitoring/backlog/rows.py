"""A row for each queue of a pair, made when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator

from orderly.monitoring.backlog.pair import Pair, span
from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.backlog.rules.table import state_and_cause
from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.sums import lost_messages


def rows_of(pair: Pair) -> Iterator[QueueStatus]:
    """The rows of a pair, sorted by queue."""
    return (row_of(pair, place) for place in range(len(pair.committed)))


def row_of(pair: Pair, place: int) -> QueueStatus:
    """One queue."""
    reading = pair.topic.reading
    queue = reading.queues[place]
    state, cause = state_and_cause(pair, place)
    record = pair.record(place)
    since = None if record is None else record.parked_since
    minimum, maximum = reading.minimum[place], reading.maximum[place]
    return QueueStatus(
        group=pair.group,
        queue=queue,
        state=state,
        cause=cause,
        minimum=_offset(minimum),
        committed=_offset(pair.committed[place]),
        maximum=_offset(maximum),
        span=span(minimum, pair.committed[place], maximum),
        backlog=pair.backlog[place],
        lost=lost_messages(pair, place),
        head_age=pair.head_age(place),
        in_rate=pair.topic.in_rates[place],
        out_rate=pair.out_rates[place],
        drain_eta=pair.drain_eta(place),
        retention_eta=pair.retention_eta(place),
        owner=pair.signs.owners.get(queue),
        parked=None if record is None else record.parked,
        parked_age=None if since is None else max(0.0, pair.now.at - since),
        head=_head(pair, place),
    )


def _offset(value: int) -> int | None:
    return value if value >= 0 else None


def _head(pair: Pair, place: int) -> Head | None:
    """The first message, unless the group has committed beyond it since it was looked at."""
    head = pair.signs.heads.get(pair.topic.reading.queues[place])
    return head if head is not None and head.offset >= pair.committed[place] else None
