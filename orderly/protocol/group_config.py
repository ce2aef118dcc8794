"""A consumer group's settings on a broker (SubscriptionGroupConfig)."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import bool_in, int_in, load_object, text_in


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A group's settings; the defaults are those of a group that a broker creates by itself.

    Attributes:
        name: of the group.
        consume_enabled: False: pulls are refused.
        consume_from_min: whether a new group may start at the oldest message.
        broadcast_enabled: False: pulls of broadcasting members are refused.
        orderly: whether gRPC clients behind a proxy get messages in order; remoting clients
            decide that for themselves.
        retry_queues: queues of its %RETRY% topic.
        retry_max_times: retries of clients that send none of their own.
        notify_members_changed: whether members are told when others come and go.
        consume_timeout: seconds.
    """

    name: str
    consume_enabled: bool = True
    consume_from_min: bool = True
    broadcast_enabled: bool = True
    orderly: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    notify_members_changed: bool = True
    consume_timeout: float = 900.0


def encode_group_config(config: GroupConfig) -> bytes:
    """Write the body that creates a group or replaces its settings, and what a broker answers."""
    return dumps(
        {
            "groupName": config.name,
            "consumeEnable": config.consume_enabled,
            "consumeFromMinEnable": config.consume_from_min,
            "consumeBroadcastEnable": config.broadcast_enabled,
            "consumeMessageOrderly": config.orderly,
            "retryQueueNums": config.retry_queues,
            "retryMaxTimes": config.retry_max_times,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": config.notify_members_changed,
            "consumeTimeoutMinute": round(config.consume_timeout / 60),
        }
    )


def decode_group_config(body: bytes) -> GroupConfig:
    """Read a group's settings; what an old broker does not know has its default.

    Raises:
        ProtocolError: not a group's settings.
    """
    fields = load_object(body)
    return GroupConfig(
        name=text_in(fields, "groupName"),
        consume_enabled=bool_in(fields, "consumeEnable", default=True),
        consume_from_min=bool_in(fields, "consumeFromMinEnable", default=True),
        broadcast_enabled=bool_in(fields, "consumeBroadcastEnable", default=True),
        orderly=bool_in(fields, "consumeMessageOrderly"),
        retry_queues=int_in(fields, "retryQueueNums", 1),
        retry_max_times=int_in(fields, "retryMaxTimes", 16),
        notify_members_changed=bool_in(fields, "notifyConsumerIdsChangedEnable", default=True),
        consume_timeout=int_in(fields, "consumeTimeoutMinute", 15) * 60.0,
    )
