"""Performs the calls that dialogues yield: on the brokers, or on this member's own offset file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orderly.client.broker import BrokerCalls
from orderly.client.pulling import PullQuery, PullStatus
from orderly.consumer.owning.local_offsets import LocalOffsets
from orderly.consumer.owning.state_calls import append_record, read_parked, read_records
from orderly.errors import ProtocolError, ReplyTooLarge
from orderly.ordering.calls import (
    AppendRecord,
    Call,
    LockQueues,
    MaxOffset,
    MinOffset,
    OffsetReset,
    Peek,
    Peeked,
    QueryOffset,
    ReadParked,
    ReadRecords,
    SaveOffset,
    SearchOffset,
    UnlockQueues,
)
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.seal import Seal


def performer(group: str, brokers: BrokerCalls, secrets: str = "") -> Callable[[Call], Any]:
    """Return the function that answers calls for one group.

    It is thread-safe, blocks for up to a request's time-out and raises OrderlyError when there is
    no answer or one that says no.

    Args:
        group: as the broker names it.
        brokers: asks them.
        secrets: `ClientConfig.record_secrets`.
    """
    seal = Seal(group, secrets)
    table: dict[type[Call], Callable[[Any], Any]] = {
        LockQueues: lambda call: brokers.lock_queues(group, call.broker_name, call.queues),
        UnlockQueues: lambda call: brokers.unlock_queues(group, call.broker_name, call.queues),
        QueryOffset: lambda call: brokers.query_offset(group, call.queue),
        SaveOffset: lambda call: brokers.update_offset(group, call.queue, call.offset),
        AppendRecord: lambda call: append_record(brokers, group, seal, call),
        ReadRecords: lambda call: read_records(brokers, group, seal, call),
        ReadParked: lambda call: read_parked(brokers, group, seal, call),
        Peek: lambda call: _peek(brokers, group, call),
        **_positions(brokers),
    }
    return lambda call: table[type(call)](call)


def broadcasting_performer(
    group: str, offsets: LocalOffsets, brokers: BrokerCalls
) -> Callable[[Call], Any]:
    """Return the function that answers calls for a broadcasting member.

    Nobody else consumes for it: locks are granted here, and its offsets are in a local file.
    """
    table: dict[type[Call], Callable[[Any], Any]] = {
        LockQueues: lambda call: frozenset(call.queues),
        UnlockQueues: lambda _: None,
        QueryOffset: lambda call: offsets.get(call.queue),
        SaveOffset: lambda call: offsets.put(call.queue, call.offset),
        Peek: lambda call: _peek(brokers, group, call),
        **_positions(brokers),
    }
    return lambda call: table[type(call)](call)


def _positions(brokers: BrokerCalls) -> dict[type[Call], Callable[[Any], Any]]:
    return {
        MinOffset: lambda call: brokers.min_offset(call.queue),
        MaxOffset: lambda call: brokers.max_offset(call.queue),
        SearchOffset: lambda call: brokers.search_offset(call.queue, call.moment.timestamp()),
    }


def _peek(brokers: BrokerCalls, group: str, call: Peek) -> Peeked:
    """Look at one message by a pull, which every broker and proxy answers.

    Raises:
        OffsetReset: an operator has reset the group's offset; this pull was told so.
        OrderlyError: no answer, or one that says no; TopicNotFound where there is no such topic.
    """
    query = PullQuery(group, call.queue, call.offset, 1, Subscription(call.queue.topic), 0.0)
    try:
        reply = brokers.pull_now(query, master=True)
    except (ProtocolError, ReplyTooLarge):  # there is a message, and it cannot be read
        return Peeked(None, call.offset + 1)
    if reply.status is PullStatus.OFFSET_ILLEGAL and (
        reply.min_offset <= call.offset < reply.max_offset
    ):
        raise OffsetReset(call.queue, reply.next_offset)
    first = next(iter(reply.messages), None)
    found = first is not None and first.queue_offset == call.offset
    stored_at = round(first.store_time * 1000) if first is not None and found else None
    return Peeked(stored_at, reply.max_offset)
