"""The heartbeat: which groups a client is a member of, what they subscribe to, who else is there.

A heartbeat replaces the subscriptions of the whole group at the broker, so every member must
list the same topics. When to send it is the client's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

from orderly.errors import ConfigError
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.java_json import (
    as_int,
    as_object,
    bool_in,
    dumps,
    int_in,
    list_in,
    load_object,
    member_in,
    object_in,
    objects_in,
    text_in,
    texts_in,
)
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

    topic: str
    expression: str = ALL_TAGS
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    version: int = 0
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
                f"{expression!r} is no tag expression; write '*' for all messages, or"
                " tags as in 'created || paid'"
            )
        return cls(topic, expression, tags, frozenset(map(java_string_hash, tags)), version)

    def matches(self, tag: str | None) -> bool:
        """Tell whether a message with this tag is wanted; the broker only compares hashes."""
        return not self.tags or tag in self.tags


@dataclass(frozen=True, slots=True)
class ProducerData:
    """Membership of a producer group."""

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """Membership of a consumer group."""

    group: str
    subscriptions: tuple[Subscription, ...]
    consume_type: ConsumeType = ConsumeType.PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All memberships of one client, as sent with RequestCode.HEART_BEAT."""

    client_id: str
    producers: tuple[ProducerData, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Write the body of a heartbeat (HeartbeatData)."""
    return dumps(
        {
            "clientID": heartbeat.client_id,
            "producerDataSet": [{"groupName": data.group} for data in heartbeat.producers],
            "consumerDataSet": [_consumer_to_json(data) for data in heartbeat.consumers],
        }
    )


def decode_heartbeat(body: bytes) -> Heartbeat:
    """Read the body of a heartbeat.

    Raises:
        ProtocolError: not a heartbeat.
    """
    fields = load_object(body)
    return Heartbeat(
        client_id=text_in(fields, "clientID"),
        producers=tuple(
            ProducerData(text_in(data, "groupName"))
            for data in objects_in(fields, "producerDataSet")
        ),
        consumers=tuple(map(_consumer_from_json, objects_in(fields, "consumerDataSet"))),
    )


def _consumer_to_json(data: ConsumerData) -> dict[str, Any]:
    return {
        "groupName": data.group,
        "consumeType": data.consume_type,
        "messageModel": data.message_model,
        "consumeFromWhere": data.consume_from,
        "unitMode": data.unit_mode,
        "subscriptionDataSet": [subscription_to_json(s) for s in data.subscriptions],
    }


def _consumer_from_json(fields: dict[str, Any]) -> ConsumerData:
    return ConsumerData(
        group=text_in(fields, "groupName"),
        subscriptions=tuple(map(subscription_from_json, objects_in(fields, "subscriptionDataSet"))),
        consume_type=member_in(fields, "consumeType", ConsumeType),
        message_model=member_in(fields, "messageModel", MessageModel),
        consume_from=member_in(fields, "consumeFromWhere", ConsumeFromWhere),
        unit_mode=bool_in(fields, "unitMode"),
    )


def subscription_to_json(subscription: Subscription) -> dict[str, Any]:
    """Return `subscription` as the object Java reads as SubscriptionData."""
    return {
        "topic": subscription.topic,
        "subString": subscription.expression,
        "tagsSet": sorted(subscription.tags),
        "codeSet": sorted(subscription.codes),
        "subVersion": subscription.version,
        "expressionType": subscription.expression_type,
        "classFilterMode": False,
    }


def subscription_from_json(fields: dict[str, Any]) -> Subscription:
    """Read a SubscriptionData object.

    Raises:
        ProtocolError: a field is missing or of the wrong type.
    """
    return Subscription(
        topic=text_in(fields, "topic"),
        expression=text_in(fields, "subString", ALL_TAGS),
        tags=frozenset(texts_in(fields, "tagsSet")),
        codes=frozenset(as_int(code, "a tag's code") for code in list_in(fields, "codeSet")),
        version=int_in(fields, "subVersion", 0),
        expression_type=text_in(fields, "expressionType", BY_TAG),
    )


def decode_consumer_ids(body: bytes) -> tuple[str, ...]:
    """Read a group's client ids, in the broker's order (GetConsumerListByGroupResponseBody)."""
    return texts_in(load_object(body), "consumerIdList")


def encode_consumer_ids(client_ids: Iterable[str]) -> bytes:
    """Write a group's client ids (GetConsumerListByGroupResponseBody)."""
    return dumps({"consumerIdList": list(client_ids)})


# --- which producers are connected: the answer to code 328 (ProducerTableInfo) --------------------


def encode_producers(groups: Mapping[str, Iterable[str]]) -> bytes:
    """Write client ids by producer group."""
    table = {group: [{"clientId": one} for one in ids] for group, ids in groups.items()}
    return dumps({"data": table})


def decode_producers(body: bytes) -> dict[str, tuple[str, ...]]:
    """Read client ids by producer group.

    Raises:
        ProtocolError: not such a table.
    """
    table = object_in(load_object(body), "data")
    return {
        group: tuple(text_in(as_object(one, "a producer"), "clientId") for one in producers or ())
        for group, producers in table.items()
    }
