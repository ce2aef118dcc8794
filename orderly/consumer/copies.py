"""Finds out whether copies of marked messages stand before them; blocks.

A marked message is a second or later attempt of a send (`ordering.repeats`). The broker's index
knows where the others with its id are. Where there is no index (a proxy has none, and a broker's
can be off) the last messages before it are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from orderly.client.broker import BrokerCalls, PullQuery, PullStatus
from orderly.errors import BrokerError, ProtocolError, ReplyTooLarge
from orderly.model import ReceivedMessage
from orderly.ordering.broker_calls import OffsetReset
from orderly.ordering.repeats import copies_of
from orderly.protocol.heartbeat import Subscription

TAIL = 1024  # messages before a marked one that are read where no index answers
_CLOCKS = 3600.0  # seconds by which clocks of producers may be wrong
_BATCH = 32


def copies_before(
    brokers: BrokerCalls, query: PullQuery, marked: Sequence[ReceivedMessage], floor: int
) -> dict[int, int | None]:
    """Where the first copy of each marked message stands.

    Args:
        brokers: to ask.
        query: of the pull that brought them.
        marked: messages of it, in the order of their offsets.
        floor: copies below it do not count (`ordering.repeats.Repeats`).

    Returns:
        By the offset of each message, that of its first copy which counts; None: there is none.

    Raises:
        OffsetReset: an operator has reset the group's offset; a pull's reply says so.
        OrderlyError: that cannot be known now.
    """
    everything = replace(query, subscription=Subscription(query.queue.topic), suspend=0.0)
    found: dict[int, int | None] = dict.fromkeys(message.queue_offset for message in marked)
    unknown: list[ReceivedMessage] = []
    for message in marked:
        offset, seen = message.queue_offset, set[int]()
        places = copies_of([message], _in_index(brokers, query, message, seen)).get(offset, ())
        for place in (place for place in places if place >= floor):
            there = _read(brokers, everything, place, place + 1)
            if copies_of([message], there):  # and not in a former topic of this name
                found[offset] = place
                break
        if found[offset] is None and offset not in seen:  # it may not know the others, either
            unknown.append(message)
    if unknown:
        start, end = max(floor, unknown[0].queue_offset - TAIL), unknown[-1].queue_offset
        copies = copies_of(unknown, _read(brokers, everything, start, end))
        found |= {offset: min(places) for offset, places in copies.items()}
    return found


def _in_index(
    brokers: BrokerCalls, query: PullQuery, message: ReceivedMessage, seen: set[int]
) -> Iterator[ReceivedMessage]:
    """What the index has with the id of a message; `seen` gets the offsets."""
    since = min(message.born_time, message.store_time) - _CLOCKS
    until = message.store_time + 1
    try:
        for copy in brokers.with_id(query, message.message_id, since=since, until=until):
            seen.add(copy.queue_offset)
            yield copy
    except (ReplyTooLarge, ProtocolError):
        return
    except BrokerError as error:  # one without an index, or whose index is not for us
        if error.retriable:
            raise


def _read(
    brokers: BrokerCalls, everything: PullQuery, start: int, end: int
) -> Iterator[ReceivedMessage]:
    """The messages of the queue from one offset to another, as far as they are there."""
    at = max(0, start)
    while at < end:
        wanted = replace(everything, offset=at, max_messages=min(_BATCH, end - at))
        result = brokers.pull_now(wanted)
        if result.status is PullStatus.OFFSET_ILLEGAL and result.min_offset <= at:
            raise OffsetReset(everything.queue, result.next_offset)  # it is told to one pull only
        if result.status is PullStatus.FOUND:
            yield from (message for message in result.messages if message.queue_offset < end)
        if result.next_offset <= at:
            return
        at = result.next_offset
