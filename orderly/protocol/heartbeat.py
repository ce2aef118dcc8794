"""The heartbeat: which groups a client is a member of, what they subscribe to, who else is there.

A heartbeat replaces the subscriptions of the whole group at the broker, so every member must
list the same topics. When to send it is the client's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from orderly.errors import ConfigError
from orderly.protocol.body import (
    TEXTS,
    body_of,
    list_of,
    load_object,
    read_body,
    texts_to,
    write_body,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.java_json import dumps
from orderly.protocol.java_string import java_string_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerList:
    """The client ids of a group's members, as the asked broker sees them."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_LIST_BY_GROUP

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClient:
    """Ends the membership of the connection's client. Locks stay."""

    code: ClassVar[RequestCode] = RequestCode.UNREGISTER_CLIENT

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConsumerIdsChanged:
    """Sent by the broker, one way: the group's members or topics changed."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """What the broker makes of a heartbeat; old brokers send neither field."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


ALL_TAGS = "*"
BY_TAG = "TAG"
"""Kind of expression: tags."""
BY_SQL = "SQL92"
"""Kind of expression: a condition on properties."""

_JAVA_BLANKS = "".join(map(chr, range(0x21)))  # what String.trim removes


class ConsumeType(StrEnum):
    """Who sets the pace; push consumers are "passive"."""

    ACTIVELY = "CONSUME_ACTIVELY"
    PASSIVELY = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether members share the queues or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(StrEnum):
    """Where a group without offsets starts; the broker only shows it to administrators."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    LAST_AND_MIN = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic of a group, filtered by tags (SubscriptionData).

    Attributes:
        expression: "*", or tags joined by "||", as the user wrote it.
        tags: the tags of the expression; empty for "*".
        codes: Java's hash of each tag. The broker filters by it: without it, tagged messages
            are skipped silently.
        version: milliseconds since the epoch; the broker keeps the highest.
    """

    also: ClassVar = {"classFilterMode": False}

    topic: str
    expression: str = wire("subString", default=ALL_TAGS)
    tags: frozenset[str] = wire("tagsSet", default=frozenset())
    codes: frozenset[int] = wire("codeSet", default=frozenset())
    version: int = wire("subVersion", default=0)
    expression_type: str = BY_TAG

    @classmethod
    def from_expression(cls, topic: str, expression: str, version: int) -> Self:
        """Read "*" or "A || B" (FilterAPI.buildSubscriptionData).

        Raises:
            ConfigError: an expression that names no tag, or "*" among tags: the broker would
                take either for a tag nobody sends.
        """
        if expression in ("", ALL_TAGS):
            return cls(topic, ALL_TAGS, version=version)
        tags = frozenset(tag.strip(_JAVA_BLANKS) for tag in expression.split("||")) - {""}
        if not tags or ALL_TAGS in tags:
            raise ConfigError(
                f"{expression!r} is not a tag expression; write '*' for all messages, or"
                " tags as in 'created || paid'"
            )
        return cls(topic, expression, tags, frozenset(map(java_string_hash, tags)), version)

    @property
    def filter_text(self) -> str:
        """Its filter for people; the same for the same tags in any order."""
        if self.expression_type != BY_TAG:
            return f"{self.expression_type} {self.expression!r}"
        return repr(" || ".join(sorted(self.tags)) or self.expression or ALL_TAGS)

    def matches(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted; the broker only compares hashes."""
        return not self.tags or tag in self.tags


@dataclass(frozen=True, slots=True)
class ProducerData:
    """Membership of a producer group."""

    group: str = wire("groupName")


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """Membership of a consumer group."""

    group: str = wire("groupName")
    subscriptions: tuple[Subscription, ...] = wire("subscriptionDataSet")
    consume_type: ConsumeType = wire("consumeType", demanded=True, default=ConsumeType.PASSIVELY)
    message_model: MessageModel = wire(
        "messageModel", demanded=True, default=MessageModel.CLUSTERING
    )
    consume_from: ConsumeFromWhere = wire(
        "consumeFromWhere", demanded=True, default=ConsumeFromWhere.LAST_OFFSET
    )
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All memberships of one client, as sent with RequestCode.HEART_BEAT."""

    client_id: str = wire("clientID")
    producers: tuple[ProducerData, ...] = wire("producerDataSet", default=())
    consumers: tuple[ConsumerData, ...] = wire("consumerDataSet", default=())


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Write the body of a heartbeat (HeartbeatData)."""
    return write_body(heartbeat)


def decode_heartbeat(body: bytes) -> Heartbeat:
    """Read the body of a heartbeat.

    Raises:
        ProtocolError: not a heartbeat.
    """
    return read_body(Heartbeat, body)


def decode_consumer_ids(body: bytes) -> tuple[str, ...]:
    """Read a group's client ids, in the broker's order (GetConsumerListByGroupResponseBody)."""
    return TEXTS.at(load_object(body), "consumerIdList")


def encode_consumer_ids(client_ids: Iterable[str]) -> bytes:
    """Write a group's client ids (GetConsumerListByGroupResponseBody)."""
    return dumps({"consumerIdList": list(client_ids)})


# --- which producers are connected: the answer to code 328 (ProducerTableInfo) --------------------


@dataclass(frozen=True, slots=True)
class _Producer:
    client_id: str


_PRODUCERS = texts_to(list_of(body_of(_Producer)))


def encode_producers(groups: Mapping[str, Iterable[str]]) -> bytes:
    """Write client ids by producer group."""
    return dumps({"data": _PRODUCERS.write({g: map(_Producer, ids) for g, ids in groups.items()})})


def decode_producers(body: bytes) -> dict[str, tuple[str, ...]]:
    """Read client ids by producer group.

    Raises:
        ProtocolError: not such a table.
    """
    table = _PRODUCERS.at(load_object(body), "data")
    return {group: tuple(one.client_id for one in ids) for group, ids in table.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GetProducerConnections:
    """The connections of a producer group, as one broker sees them."""

    code: ClassVar[RequestCode] = RequestCode.GET_PRODUCER_CONNECTION_LIST

    producer_group: str


@dataclass(frozen=True, slots=True)
class _Connections:
    """The answer to code 204 (ProducerConnection)."""

    connections: tuple[_Producer, ...] = wire("connectionSet")


def encode_producer_connections(client_ids: Iterable[str]) -> bytes:
    """Write the client ids of a group's connections; an id can be there several times."""
    return write_body(_Connections(tuple(map(_Producer, client_ids))))


def decode_producer_connections(body: bytes) -> tuple[str, ...]:
    """Read the client ids of a group's connections, one for each connection.

    Raises:
        ProtocolError: not such a list.
    """
    return tuple(one.client_id for one in read_body(_Connections, body).connections)
