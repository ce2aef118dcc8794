"""Finds out whether copies of marked messages stand before them; blocks.

A marked message is a second or later attempt of a send (`ordering.repeats`). The broker's index
knows where the others with its id are. Where there is no index (a proxy has none, and a broker's
can be off) the last messages before it are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orderly.client.broker import BrokerCalls, PullQuery, PullStatus
from orderly.errors import BrokerError, ReplyTooLarge
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import OffsetReset
from orderly.ordering.repeats import first_copy
from orderly.protocol.heartbeat import Subscription

TAIL = 1024  # messages before a marked one that are read where no index answers
_CLOCKS = 3600.0  # seconds by which clocks of producers may be wrong
_BATCH = 32


def copies_before(
    brokers: BrokerCalls, group: str, queue: MessageQueue, marked: Sequence[ReceivedMessage]
) -> dict[int, int | None]:
    """Where the first copy of each marked message stands.

    Args:
        brokers: to ask.
        group: the consumer group.
        queue: which queue.
        marked: messages of one pull, in the order of their offsets.

    Returns:
        By the offset of each message, the offset of its first copy; None: none stands before it.

    Raises:
        OffsetReset: an operator has reset the group's offset; a pull's reply says so.
        OrderlyError: that cannot be known now.
    """
    found: dict[int, int | None] = {}
    unknown: list[ReceivedMessage] = []
    for message in marked:
        copies = _in_index(brokers, queue, message)
        first = first_copy(message, copies)
        found[message.queue_offset] = first
        known = any(copy.queue_offset == message.queue_offset for copy in copies)
        if first is None and not known:  # what does not know itself may not know the others
            unknown.append(message)
    if unknown:
        ids = {message.message_id for message in unknown}
        tail = [each for each in _tail(brokers, group, queue, unknown) if each.message_id in ids]
        found |= {message.queue_offset: first_copy(message, tail) for message in unknown}
    return found


def _in_index(
    brokers: BrokerCalls, queue: MessageQueue, message: ReceivedMessage
) -> list[ReceivedMessage]:
    since = min(message.born_time, message.store_time) - _CLOCKS
    try:
        return brokers.with_id(queue, message.message_id, since=since, until=message.store_time + 1)
    except ReplyTooLarge:
        return []
    except BrokerError as error:  # one without an index, or whose index is not for us
        if error.retriable:
            raise
        return []


def _tail(
    brokers: BrokerCalls, group: str, queue: MessageQueue, marked: Sequence[ReceivedMessage]
) -> Iterator[ReceivedMessage]:
    at, end = max(0, marked[0].queue_offset - TAIL), marked[-1].queue_offset
    everything = Subscription(queue.topic)
    while at < end:
        result = brokers.pull_now(
            PullQuery(group, queue, at, min(_BATCH, end - at), everything, suspend=0.0)
        )
        if result.status is PullStatus.OFFSET_ILLEGAL and result.min_offset <= at:
            raise OffsetReset(queue, result.next_offset)  # it is told to one pull only
        if result.status is PullStatus.FOUND:
            yield from result.messages
        if result.next_offset <= at:
            return
        at = result.next_offset
