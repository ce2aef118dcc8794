"""Offsets: of a group on a queue, of a queue, of all groups on a broker, and their resets.

Header names are Java's in snake_case; the wire names follow from them (`ext`).
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.body import (
    INT,
    MAX_NAME,
    OBJECT,
    QUEUE,
    as_object,
    load_object,
    queues_to,
    texts_to,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import QueueHeader, wire
from orderly.protocol.java_json import dumps


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffset(QueueHeader):
    """The group's stored offset.

    Only with `set_zero_if_not_found=False` is "none stored" (code 22) told apart from 0.
    """

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    set_zero_if_not_found: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffset(QueueHeader):
    """Store the group's offset. The broker takes any value from anybody."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    commit_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffset(QueueHeader):
    """The offset the queue's next message gets; 0 for a queue that does not exist."""

    code: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET

    committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffset(QueueHeader):
    """The offset of the queue's oldest message; 0 for a queue that does not exist."""

    code: ClassVar[RequestCode] = RequestCode.GET_MIN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffset(QueueHeader):
    """The offset at a time (milliseconds since the epoch).

    `boundary_type` "lower" is the first message stored at or after it, "upper" the last one
    stored at or before it.
    """

    code: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    timestamp: int
    boundary_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReply:
    """The reply to every question about one offset."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset:
    """Set a group's offsets at one broker (ResetOffsetRequestHeader, to the broker).

    Without `queue_id` all queues of the topic go to `timestamp` (milliseconds since the epoch;
    -1: the maximum). With `queue_id` and `offset` that queue alone does; brokers that do not
    reset by themselves (useServerSideResetOffset) ignore both fields.
    """

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET

    topic: str
    group: str
    timestamp: int
    is_force: bool = True
    queue_id: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMemberOffset:
    """Sent by the broker, one way: go on from the offsets in the body."""

    code: ClassVar[RequestCode] = RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    topic: str
    group: str
    timestamp: int
    is_force: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMemberOffsets:
    """Sent by the broker: which offset comes next in each queue."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOffsetsOfMembers:
    """The administrator's half of `GetMemberOffsets`; without `client_id` of all members."""

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    topic: str
    group: str
    client_id: str | None = wire("clientAddr", default=None)


# --- resets, and offsets of members ---------------------------------------------------------------
# Java takes and gives tables with whole queues as keys; a broker that relays the reset of an
# administrator written in C++ sends a list instead.


_OFFSETS = "offsetTable"
_MINE = "messageQueueTable"
_MEMBERS = "consumerTable"
_BY_QUEUE = queues_to(INT)
_BY_MEMBER = texts_to(_BY_QUEUE)


def encode_reset(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write new offsets, as a broker sends them to members and to the caller (ResetOffsetBody)."""
    return dumps({_OFFSETS: _BY_QUEUE.write(offsets)})


def encode_reset_list(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write new offsets in the form for C++ (ResetOffsetBodyForC)."""
    rows = [QUEUE.write(queue) | {"offset": offset} for queue, offset in offsets.items()]
    return dumps({_OFFSETS: rows})


def decode_reset(body: bytes) -> dict[MessageQueue, int]:
    """Read new offsets in either form; an empty body is none.

    Raises:
        ProtocolError: neither form.
    """
    fields = load_object(body)
    if isinstance(fields.get(_OFFSETS), list):
        return {QUEUE.read(row, "a queue"): INT.at(row, "offset") for row in fields[_OFFSETS]}
    return _BY_QUEUE.at(fields, _OFFSETS)


def encode_member_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write a member's answer to GetMemberOffsets (GetConsumerStatusBody)."""
    return dumps({_MINE: _BY_QUEUE.write(offsets), _MEMBERS: {}})


def decode_member_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Read a member's answer to GetMemberOffsets.

    Raises:
        ProtocolError: not such an answer.
    """
    return _BY_QUEUE.at(load_object(body), _MINE)


def encode_offsets_of_members(offsets: Mapping[str, Mapping[MessageQueue, int]]) -> bytes:
    """Write a broker's answer to GetOffsetsOfMembers: the answers of members, by client id."""
    return dumps({_MINE: {}, _MEMBERS: _BY_MEMBER.write(offsets)})


def decode_offsets_of_members(body: bytes) -> dict[str, dict[MessageQueue, int]]:
    """Read a broker's answer to GetOffsetsOfMembers, by client id.

    Raises:
        ProtocolError: not such an answer.
    """
    return _BY_MEMBER.at(load_object(body), _MEMBERS)


# --- the committed offsets of all groups, by reading the JSON -------------------------------------


_QUEUE_IDS = re.compile(r"(?:-?[0-9]{1,10}(?:,(?!$)|$))*", re.ASCII)


def decode_committed(body: bytes) -> dict[tuple[str, str], dict[int, int]]:
    """Read the committed offsets of all groups on one broker (ConsumerOffsetManager).

    Returns:
        By group and topic, the offset by queue id; a queue that was never committed has none.

    Raises:
        ProtocolError: not such a table.
    """
    table = OBJECT.at(load_object(body), "offsetTable")
    committed = {}
    for name, offsets in table.items():
        topic, _, group = name.partition("@")
        if topic and group and "@" not in group:  # Java passes over other names, too
            committed[group, topic] = _by_queue(name, as_object(offsets, "a group's offsets"))
    return committed


def _by_queue(name: str, offsets: dict[str, Any]) -> dict[int, int]:
    # A broker has a hundred thousand of them, so they are checked together.
    if not _QUEUE_IDS.fullmatch(",".join(offsets)):
        raise ProtocolError(f"not all offsets of {name!r:.300} have the number of a queue")
    try:
        return dict(zip(map(int, offsets), array("q", offsets.values()), strict=True))
    except (ValueError, TypeError, OverflowError) as error:
        raise ProtocolError(f"the offsets of {name!r:.300} cannot be read: {error}") from error


def encode_committed(offsets: Mapping[tuple[str, str], Mapping[int, int]]) -> bytes:
    """Write the committed offsets of all groups, by group and topic (ConsumerOffsetManager)."""
    table = {f"{topic}@{group}": dict(queues) for (group, topic), queues in offsets.items()}
    return dumps({"offsetTable": table})


# --- the committed offsets of all groups, by searching the text -----------------------------------
# A large cluster's answer has more than a hundred thousand offsets, and keys that no JSON parser
# takes. Searched with regular expressions it is read in a third of the time, and that of one group
# in next to none. Text that does not look as brokers write it is read by `decode_committed`.


Committed = dict[tuple[str, str], dict[int, int]]

# At most so many digits that no number has more than 64 bits; nothing is ever tried twice ("++").
_PAIR = rb"-?[0-9]{1,9}+:-?[0-9]{1,18}+"
_ENTRY = rb'"[^"\\]*+":\{(?:%b(?:,%b)*+)?+\}' % (_PAIR, _PAIR)
_TABLE = re.compile(rb'"offsetTable":\{(?:%b(?:,%b)*+)?+\}' % (_ENTRY, _ENTRY))
_ANY_GROUP = rb'[^"@]+'


def read_committed(body: bytes, groups: Collection[str] | None = None) -> Committed:
    """Read the committed offsets on one broker.

    Args:
        body: the answer to GET_ALL_CONSUMER_OFFSET.
        groups: read theirs alone; None: those of all.

    Returns:
        By group and topic, the offset by queue id; a queue that was never committed has none.

    Raises:
        ProtocolError: not such a table.
    """
    table = _TABLE.search(body)
    found = _searched(table[0], groups) if table else None
    if found is None:
        every = decode_committed(body)
        found = {pair: o for pair, o in every.items() if groups is None or pair[0] in groups}
    return {pair: o for pair, o in found.items() if max(map(len, pair)) <= MAX_NAME}


def _searched(table: bytes, groups: Collection[str] | None) -> Committed | None:
    """The entries of the groups; None if one of them cannot be read."""
    names = _ANY_GROUP if groups is None else b"|".join(re.escape(g.encode()) for g in groups)
    entries = re.findall(rb'"([^"@]+)@(%b)":\{([^}]*)\}' % names, table)
    if not entries:
        return {}
    texts = b"],[".join(offsets for _, _, offsets in entries)
    try:
        columns = json.loads(b"[[%b]]" % texts.replace(b":", b","))
        return {
            (group.decode(), topic.decode()): dict(zip(column[::2], column[1::2], strict=True))
            for (topic, group, _), column in zip(entries, columns, strict=True)
        }
    except ValueError:  # a number with a zero in front
        return None
