"""How evenly messages lie over keys, exactly, and how even any placing of keys could be. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

_POINTS = 200  # of a curve


def gini(keys: Mapping[int, int]) -> float | None:
    """Gini's coefficient of messages over keys: 0 is even, near 1 is one key alone.

    Args:
        keys: by number of messages, how many keys have so many.

    Returns:
        None: there is no key.
    """
    before = weighted = total = 0
    for messages, count in sorted(keys.items()):
        weighted += messages * (count * before + count * (count + 1) // 2)
        total += messages * count
        before += count
    if not total:
        return None
    return max(0.0, (2 * weighted - (before + 1) * total) / (before * total))


def concentration(keys: Mapping[int, int]) -> list[tuple[float, float]]:
    """Which share of messages the most frequent keys have: (share of keys, share of messages)."""
    count, total = sum(keys.values()), sum(each * number for each, number in keys.items())
    points, some, messages = [(0.0, 0.0)], 0, 0
    for each in sorted(keys, reverse=True):
        some += keys[each]
        messages += each * keys[each]
        points.append((some / count, messages / total))
    return _thinned(points)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """As few as a plot shows: no two closer than that in both directions."""
    kept = points[:1]
    for point in points[1:-1]:
        if max(point[0] - kept[-1][0], point[1] - kept[-1][1]) >= 1 / _POINTS:
            kept.append(point)
    return [*kept, *points[1:][-1:]]


def bound(top_share: float, queues: int) -> float:
    """The least that the busiest queue can have, as a multiple of the mean.

    Whatever places keys: the most frequent key lies in one queue.
    """
    return max(1.0, top_share * queues)


def pinned(rest: Sequence[int], head: Sequence[int]) -> float | None:
    """The busiest queue over the mean if the head keys are pinned one by one, the largest first.

    Each goes to the queue that has least so far (LPT). It shows what pinning can bring; no
    selector does it, and a pin must be kept as long as its key lives.

    Args:
        rest: messages by queue of all other keys, placed as now.
        head: messages of each key to pin, descending.

    Returns:
        None: there are no messages.
    """
    total = sum(rest) + sum(head)
    if not total:
        return None
    loads = list(rest)
    heapq.heapify(loads)
    for messages in head:
        heapq.heapreplace(loads, loads[0] + messages)
    return max(loads) * len(loads) / total
