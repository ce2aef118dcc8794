"""Header fields of topic and group administration and of the statistics.

What producers and consumers ask is in `headers`; names and rules are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from orderly.protocol.codes import RequestCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a topic on one broker, or replace all its settings (CreateTopicRequestHeader).

    `perm` is 2 (write), 4 (read) or 6; `attributes` such as "+message.type=FIFO".
    """

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_TOPIC

    topic: str
    default_topic: str = "TBW102"
    read_queue_nums: int
    write_queue_nums: int
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicInBroker:
    """Delete a topic's settings and messages on one broker."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_BROKER

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicInNameServer:
    """Make a name server forget a topic's route, in one cluster or in all."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_NAMESRV

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfig:
    """A topic's settings on one broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_CONFIG

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicStats:
    """Minimum and maximum offset of each queue of a topic on one broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_STATS_INFO

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStats:
    """Offsets of a group on one broker, for one topic or for all it subscribes to."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUME_STATS

    consumer_group: str
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnections:
    """The members of a group, with addresses, as one broker sees them."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_CONNECTION_LIST

    consumer_group: str
