"""How much of what waits goes into the next batch of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Q = TypeVar("Q")


def shares(waiting: Mapping[Q, int], limit: int) -> dict[Q, int]:
    """Divide a batch's messages among queues, in proportion to what waits in each.

    No queue that has something is left out, so that a small one is not starved by a large one:
    with more of them than `limit`, each gives one message and the batch is that much larger.

    Args:
        waiting: messages by queue.
        limit: messages for all of them, 1 or more.

    Returns:
        How many to read, by queue; exactly `limit` in all where as many wait.
    """
    some = {queue: count for queue, count in waiting.items() if count > 0}
    if sum(some.values()) <= limit:
        return {queue: max(count, 0) for queue, count in waiting.items()}
    given = dict.fromkeys(waiting, 0) | dict.fromkeys(some, 1)
    left, beyond = limit - len(some), sum(some.values()) - len(some)
    if left < 0:
        return given
    owed: list[tuple[int, int, Q]] = []  # what rounding down withholds, largest first
    for place, (queue, count) in enumerate(some.items()):
        whole, part = divmod((count - 1) * left, beyond)
        given[queue] += whole
        owed.append((-part, place, queue))
    rest = limit - sum(given.values())
    for _, _, queue in sorted(owed)[:rest]:
        given[queue] += 1
    return given
