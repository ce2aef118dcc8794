"""Performs the calls that dialogues yield: on the brokers, or on this member's own offset file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orderly.client.broker import BrokerCalls
from orderly.consumer.owning.local_offsets import LocalOffsets
from orderly.consumer.owning.state_calls import append_record, read_parked, read_records
from orderly.ordering.calls import (
    AppendRecord,
    Call,
    LockQueues,
    MaxOffset,
    MinOffset,
    QueryOffset,
    ReadParked,
    ReadRecords,
    SaveOffset,
    SearchOffset,
    UnlockQueues,
)


def performer(group: str, brokers: BrokerCalls) -> Callable[[Call], Any]:
    """Return the function that answers calls for one group.

    It is thread-safe, blocks for up to a request's time-out and raises OrderlyError when there is
    no answer or one that says no.
    """
    table: dict[type[Call], Callable[[Any], Any]] = {
        LockQueues: lambda call: brokers.lock_queues(group, call.broker_name, call.queues),
        UnlockQueues: lambda call: brokers.unlock_queues(group, call.broker_name, call.queues),
        QueryOffset: lambda call: brokers.query_offset(group, call.queue),
        SaveOffset: lambda call: brokers.update_offset(group, call.queue, call.offset),
        AppendRecord: lambda call: append_record(brokers, group, call),
        ReadRecords: lambda call: read_records(brokers, group, call),
        ReadParked: lambda call: read_parked(brokers, group, call),
        **_positions(brokers),
    }
    return lambda call: table[type(call)](call)


def broadcasting_performer(offsets: LocalOffsets, brokers: BrokerCalls) -> Callable[[Call], Any]:
    """Return the function that answers calls for a broadcasting member.

    Nobody else consumes for it: locks are granted here, and its offsets are in a local file.
    """
    table: dict[type[Call], Callable[[Any], Any]] = {
        LockQueues: lambda call: frozenset(call.queues),
        UnlockQueues: lambda _: None,
        QueryOffset: lambda call: offsets.get(call.queue),
        SaveOffset: lambda call: offsets.put(call.queue, call.offset),
        **_positions(brokers),
    }
    return lambda call: table[type(call)](call)


def _positions(brokers: BrokerCalls) -> dict[type[Call], Callable[[Any], Any]]:
    return {
        MinOffset: lambda call: brokers.min_offset(call.queue),
        MaxOffset: lambda call: brokers.max_offset(call.queue),
        SearchOffset: lambda call: brokers.search_offset(call.queue, call.moment.timestamp()),
    }
