"""Finds out whether copies of marked messages stand before them; blocks.

A marked message is a second or later attempt of a send (`ordering.repeats`). The broker's index
knows where the others with its id are. Where there is no index (a proxy has none, and a broker's
can be off) the last messages before it are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orderly.client.broker import BrokerCalls, PullQuery, PullStatus
from orderly.errors import BrokerError, ProtocolError, ReplyTooLarge
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import OffsetReset
from orderly.ordering.repeats import first_copies
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
        offset, seen = message.queue_offset, set[int]()
        first = first_copies([message], _in_index(brokers, queue, message, seen)).get(offset)
        found[offset] = first
        if first is None and offset not in seen:  # what does not know itself may not know others
            unknown.append(message)
    if unknown:
        found |= first_copies(unknown, _tail(brokers, group, queue, unknown))
    return found


def _in_index(
    brokers: BrokerCalls, queue: MessageQueue, message: ReceivedMessage, seen: set[int]
) -> Iterator[ReceivedMessage]:
    """What the index has with the id of a message; `seen` gets the offsets."""
    since = min(message.born_time, message.store_time) - _CLOCKS
    until = message.store_time + 1
    try:
        for copy in brokers.with_id(queue, message.message_id, since=since, until=until):
            seen.add(copy.queue_offset)
            yield copy
    except (ReplyTooLarge, ProtocolError):
        return
    except BrokerError as error:  # one without an index, or whose index is not for us
        if error.retriable:
            raise


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
