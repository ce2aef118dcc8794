"""Where a queue that was taken over starts: lock first, then read the committed offset, then pull.

The offset of the former owner is final by then (`committing.hand_on`: acknowledged before the
unlock).
"""

from __future__ import annotations

from datetime import datetime

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.ordering.calls import (
    Call,
    Dialogue,
    MaxOffset,
    MinOffset,
    QueryOffset,
    SaveOffset,
    SearchOffset,
)
from orderly.ordering.start import Start, start_of

_SAVES = 3


def find_start(queue: MessageQueue, consume_from: str | datetime) -> Dialogue[int]:
    """Return the offset to pull from; call only while the queue's lock is held.

    A start computed for want of a committed offset is committed before it is returned, so that a
    second computation can never skip what was sent in the meantime. And it is read back: of the
    first commits of a group to a topic that arrive together, a broker may acknowledge one and
    lose it (ConsumerOffsetManager.commitOffset makes the group's table without a lock).

    Raises:
        OrderlyError: any failure but "none stored"; the caller must not pull then.
    """
    stored = yield QueryOffset(queue)
    if stored is not None:
        return int(stored)
    computed = yield _start_call(queue, consume_from)
    for _ in range(_SAVES):
        yield SaveOffset(queue, computed)
        kept = yield QueryOffset(queue)
        if kept is not None:
            return int(kept)
    raise OrderlyError(
        f"the broker acknowledged the offset {computed} of {queue} {_SAVES} times and has none;"
        " look at its log. The queue is tried again"
    )


def _start_call(queue: MessageQueue, consume_from: str | datetime) -> Call:
    start = start_of(consume_from, queue.topic)
    if start is Start.TIME:
        assert isinstance(consume_from, datetime)
        return SearchOffset(queue, consume_from)
    return MinOffset(queue) if start is Start.MIN else MaxOffset(queue)
