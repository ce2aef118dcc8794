"""Where a queue starts when the group has no committed offset for it: one table.

Java: RebalancePushImpl.computePullFromWhereWithException. Java computes it twice, at acquisition
and at the first pull, and skips what was sent in between (apache/rocketmq issue 10955); here it is
computed once and committed before the first pull (see `handover.find_start`).
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from orderly.namespace import is_retry_topic


class Start(Enum):
    """Which offset of the queue to ask the broker for."""

    MIN = "the lowest offset the broker still has"
    MAX = "the offset after the newest message"
    TIME = "the first offset stored at or after a time"


_TABLE = {
    # (position, retry topic) -> start
    ("first", False): Start.MIN,
    ("first", True): Start.MIN,
    ("last", False): Start.MAX,
    ("last", True): Start.MIN,
    ("time", False): Start.TIME,
    ("time", True): Start.MAX,
}


def start_of(consume_from: str | datetime, topic: str) -> Start:
    """Return the table's cell.

    Args:
        consume_from: "first", "last" or a time, as `config.parse_consume_from` returns it.
        topic: a `%RETRY%` topic starts at 0 under "last": what is in there is ours.
    """
    position = "time" if isinstance(consume_from, datetime) else consume_from
    return _TABLE[position, is_retry_topic(topic)]


def for_later_queue(consume_from: str | datetime) -> str | datetime:
    """Return the position for a queue that appeared after the group began to consume its topic.

    "last" would skip what was sent between its appearance and our noticing it (apache/rocketmq
    issue 9307), so it begins with its first message.
    """
    return "first" if consume_from == "last" else consume_from
