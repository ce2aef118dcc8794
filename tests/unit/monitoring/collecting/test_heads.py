"""Where something waits, and which heads are read first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orderly.monitoring.backlog.reading import NEVER, NOT_READ
from orderly.monitoring.backlog.states import VERDICTS, QueueState
from orderly.monitoring.collecting.heads import (
    LaggingQueue,
    head_offset,
    lagging_brokers,
    lagging_topics,
    worst_heads,
)
from tests.support.snapshots import queue, scan_of


def heads(scan, last=None, most=9, known=()):
    return worst_heads(scan, lagging_topics(scan), lambda place: place in known, last, most)


def judged(**states):
    """A snapshot in which group g's topics are in these states."""
    topics = {
        name: SimpleNamespace(sums=SimpleNamespace(verdict=VERDICTS[state]))
        for name, state in states.items()
    }
    return SimpleNamespace(groups={"g": SimpleNamespace(topics=topics)})


@pytest.mark.parametrize(
    ("row", "lags"),
    [((0, 3, 5), True), ((0, 5, 5), False), ((0, NEVER, 5), False), ((0, NOT_READ, 5), False),
     ((0, 3, NOT_READ), False), ((4, 3, 5), True), ((0, 7, 5), False)],
)  # fmt: skip
def test_only_what_is_behind_a_committed_offset_lags(row, lags):
    found = lagging_topics(scan_of({("g", "orders"): [(0, 5, 5), row]}))
    assert found == ({"g": ("orders",)} if lags else {})


def test_brokers_whose_queues_lag():
    scan = scan_of({("g", "orders"): [(0, 5, 5), (0, 4, 5)]})
    assert lagging_brokers(scan.topics["orders"], (5, 4)) == ["broker-a"]
    assert lagging_brokers(scan.topics["orders"], (5, 5)) == []


def test_the_queue_where_most_wait_comes_first():
    scan = scan_of({("g", "orders"): [(0, 4, 5), (0, 1, 9)], ("h", "pays"): [(0, 2, 5)]})
    assert heads(scan) == [
        LaggingQueue("g", queue(1), 1),
        LaggingQueue("g", queue(0), 4),
        LaggingQueue("h", queue(0, "pays"), 2),
    ]
    assert heads(scan, most=1) == [LaggingQueue("g", queue(1), 1)]
    assert heads(scan, most=0) == []


def test_a_topic_in_trouble_comes_before_larger_ones():
    scan = scan_of({("g", "orders"): [(0, 0, 900)], ("g", "pays"): [(0, 4, 5)]})
    last = judged(orders=QueueState.LAGGING, pays=QueueState.BLOCKED)
    assert heads(scan, last, most=1) == [LaggingQueue("g", queue(0, "pays"), 4)]


def test_what_is_known_makes_room_for_the_next():
    scan = scan_of({("g", "orders"): [(0, 0, 9), (0, 1, 9)]})
    assert heads(scan, most=1, known=[LaggingQueue("g", queue(0), 0)]) == [
        LaggingQueue("g", queue(1), 1)
    ]


def test_the_head_of_what_was_deleted_is_the_oldest_there_is():
    scan = scan_of({("g", "orders"): [(4, 2, 9), (9, 2, 9), (0, NEVER, 9)]})
    assert [head_offset(scan, "g", queue(number)) for number in range(3)] == [4, None, None]
    assert head_offset(scan, "g", queue(0, "gone")) is None
