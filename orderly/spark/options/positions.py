"""Where in each queue to begin or to end, as users say it.

What a position means for one queue is worked out in `discovering`, which asks the brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from orderly.config import check_group
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.offsets import text as offsets_json

_GROUP = "group:"
_FIRST_MILLIS, _LAST_MILLIS = 10**11, 10**14  # 1973 and 5138: seconds and dates are neither
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Edge(Enum):
    """One of a queue's two ends."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Moment:
    """The first message stored at or after a time, in the broker's milliseconds since the epoch."""

    millis: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The offset that a consumer group has committed; the oldest message where it has none."""

    group: str


@dataclass(frozen=True, slots=True)
class Exact:
    """An offset for each queue.

    Attributes:
        offsets: by queue; -2 and -1 stand for its ends.
        others: what holds for queues that are not named.
    """

    offsets: Mapping[MessageQueue, int]
    others: Edge

    def of(self, queue: MessageQueue) -> int | Edge:
        """The queue's offset, or the end that stands for it."""
        offset = self.offsets.get(queue)
        if offset is None:
            return self.others
        return _EDGES.get(offset, offset)


_EDGES = {offsets_json.EARLIEST: Edge.EARLIEST, offsets_json.LATEST: Edge.LATEST}
Position = Edge | Moment | Committed | Exact


def parse_offsets(text: str, what: str, others: Edge) -> Position:
    """Read a position that is no time.

    Args:
        text: "earliest", "latest", "group:NAME", or offsets as JSON.
        what: the option's name, for the error.
        others: what holds for queues that the JSON does not name.

    Raises:
        ConfigError: it is none of these.
    """
    word = text.strip()
    if word.lower() in (edge.value for edge in Edge):
        return Edge(word.lower())
    if word.startswith(_GROUP):
        return Committed(check_group(word.removeprefix(_GROUP)))
    if word.startswith("{"):
        return Exact(offsets_json.loads(word, what), others)
    raise ConfigError(
        f"{what}={text!r} must be earliest, latest, group:NAME (what it has committed), or JSON"
        ' like {"topic": {"broker": {"0": 123}}}'
    )


def parse_moment(text: str, what: str) -> Moment:
    """Read a time: ISO 8601, or milliseconds since the epoch.

    A time without an offset is meant as this machine's clock shows it.

    Raises:
        ConfigError: neither, or a number that can only be meant as seconds or as a date.
    """
    word = text.strip()
    refusal = (
        f"{what}={text!r} must be an ISO 8601 time (2026-11-21T08:00:00+00:00) or milliseconds"
        " since the epoch"
    )
    try:
        if not word.isdecimal():
            return Moment(millis_of(datetime.fromisoformat(word).astimezone(UTC)))
        if _FIRST_MILLIS <= int(word) < _LAST_MILLIS:
            return Moment(int(word))
    except (ValueError, OverflowError) as error:
        raise ConfigError(refusal) from error
    raise ConfigError(refusal)


def millis_of(moment: datetime) -> int:
    """The first whole millisecond at or after a time; stores count in milliseconds.

    Args:
        moment: aware.
    """
    return -((_EPOCH - moment) // timedelta(milliseconds=1))
