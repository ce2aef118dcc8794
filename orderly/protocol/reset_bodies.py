"""Bodies about the offsets of a group's members: to reset them, and to tell them.

Java takes and gives tables with whole queues as keys; a broker that relays the reset of an
administrator written in C++ sends a list instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from orderly.model import MessageQueue
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    int_in,
    load_object,
    object_in,
    objects_in,
    offset_table_in,
    queue_from_json,
    queue_table,
    queue_to_json,
)

_OFFSETS = "offsetTable"
_MINE = "messageQueueTable"
_MEMBERS = "consumerTable"


def encode_reset(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write new offsets, as a broker tells them to members and to who asked (ResetOffsetBody)."""
    return dumps({_OFFSETS: queue_table(offsets)})


def encode_reset_list(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write new offsets in the form for C++ (ResetOffsetBodyForC)."""
    rows = [queue_to_json(queue) | {"offset": offset} for queue, offset in offsets.items()]
    return dumps({_OFFSETS: rows})


def decode_reset(body: bytes) -> dict[MessageQueue, int]:
    """Read new offsets in either form; an empty body is none.

    Raises:
        ProtocolError: neither form.
    """
    fields = load_object(body)
    if isinstance(fields.get(_OFFSETS), list):
        rows = objects_in(fields, _OFFSETS)
        return {queue_from_json(row): int_in(row, "offset") for row in rows}
    return offset_table_in(fields, _OFFSETS)


def encode_member_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write a member's answer to GetMemberOffsets (GetConsumerStatusBody)."""
    return dumps({_MINE: queue_table(offsets), _MEMBERS: {}})


def decode_member_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Read a member's answer to GetMemberOffsets.

    Raises:
        ProtocolError: not such an answer.
    """
    return offset_table_in(load_object(body), _MINE)


def encode_offsets_of_members(offsets: Mapping[str, Mapping[MessageQueue, int]]) -> bytes:
    """Write a broker's answer to GetOffsetsOfMembers: the answers of members, by client id."""
    table = {client_id: queue_table(mine) for client_id, mine in offsets.items()}
    return dumps({_MINE: {}, _MEMBERS: table})


def decode_offsets_of_members(body: bytes) -> dict[str, dict[MessageQueue, int]]:
    """Read a broker's answer to GetOffsetsOfMembers, by client id.

    Raises:
        ProtocolError: not such an answer.
    """
    table = object_in(load_object(body), _MEMBERS)
    return {client_id: offset_table_in(table, client_id) for client_id in table}
