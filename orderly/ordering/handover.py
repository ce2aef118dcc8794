"""Taking a queue over and handing it on: the order of steps that loses and overlaps nothing.

Taking: lock first, then read the committed offset, then pull; the offset of the former owner is
final by then. Handing on: handler idle first, then save the offset (acknowledged), then unlock;
an heir that is granted the lock reads our last offset. Java sends both one-way through different
broker pools, and may unlock beside a running handler; here neither happens.
"""

from __future__ import annotations

from datetime import datetime

from orderly.errors import BrokerError
from orderly.model import MessageQueue
from orderly.ordering.calls import (
    Call,
    Dialogue,
    MaxOffset,
    MinOffset,
    QueryOffset,
    SaveOffset,
    SearchOffset,
    UnlockQueues,
)
from orderly.ordering.start import Start, start_of


def find_start(queue: MessageQueue, consume_from: str | datetime) -> Dialogue[int]:
    """Return the offset to pull from; call only while the queue's lock is held.

    A start computed for want of a committed offset is committed before it is returned, so that a
    second computation can never skip what was sent in the meantime.

    Raises:
        OrderlyError: any failure but "none stored"; the caller must not pull then.
    """
    stored = yield QueryOffset(queue)
    if stored is not None:
        return int(stored)
    computed = yield _start_call(queue, consume_from)
    yield SaveOffset(queue, computed)
    return int(computed)


def _start_call(queue: MessageQueue, consume_from: str | datetime) -> Call:
    start = start_of(consume_from, queue.topic)
    if start is Start.TIME:
        assert isinstance(consume_from, datetime)
        return SearchOffset(queue, consume_from)
    return MinOffset(queue) if start is Start.MIN else MaxOffset(queue)


def hand_on(queue: MessageQueue, unsaved: int | None) -> Dialogue[BrokerError | None]:
    """Save what is unsaved, then unlock; call only when no handler runs on the queue.

    Returns:
        The broker's final refusal to store the offset (the topic was deleted, say), or None. No
        waiting would help then, so the queue is unlocked all the same.

    Raises:
        OrderlyError: a failure that may pass. The queue is still locked: try again, so that the
            heir does not start from a stale offset.
    """
    refusal = None
    if unsaved is not None:
        try:
            yield SaveOffset(queue, unsaved)
        except BrokerError as error:
            if error.retriable:
                raise
            refusal = error
    yield UnlockQueues(queue.broker_name, (queue,))
    return refusal
