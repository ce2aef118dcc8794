"""Topics: their settings on one broker (TopicConfig), what makes and deletes them, their list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

from orderly.protocol import properties as names
from orderly.protocol.body import (
    MAX_LISTED_QUEUES,
    TEXTS,
    QueueCount,
    Version,
    check_total,
    load_object,
    possible,
    read_body,
    write_body,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.java_json import dumps


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
class GetTopicConfigs:
    """One page of all topics' settings, by name (GetAllTopicConfigRequestHeader).

    Without any field the answer is whole, with any settings of the broker; so ask for pages only
    where it could exceed a frame (about 80,000 topics). A broker without enableSplitMetadata (it
    is on by default) and those before 5.5 answer a page with everything.

    Args:
        topic_seq: how many topics the pages before had.
        max_topic_num: topics a page; the broker's limit (2000) applies as well.
        data_version: `TopicConfigs.version` of the page before; where it is not the present one,
            the broker begins again at 0.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_TOPIC_CONFIG

    topic_seq: int
    max_topic_num: int | None = None
    data_version: str = ""


# --- which messages a topic is declared for: attribute "message.type" -----------------------------
# Source: TopicMessageType and TopicAttributes in Java. Brokers keep it; only proxies hold
# producers to it: a message with a sharding key is FIFO, one without NORMAL, and a batch what its
# own properties say, NORMAL.


ATTRIBUTE = "message.type"


class MessageType(StrEnum):
    """The types that release 5.5 knows; a topic without one is NORMAL."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"
    LITE = "LITE"
    MIXED = "MIXED"
    UNSPECIFIED = "UNSPECIFIED"


# A message that has one of these becomes visible later than it was sent: at a time, or when its
# transaction ends. Messages sent after it come before it.
APPEARS_LATER: frozenset[str] = frozenset(
    {
        names.DELAY,
        "TIMER_DELAY_LEVEL",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TRAN_MSG",
    }
)


_SET = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's settings.

    Attributes:
        name: of the topic.
        read_queues, write_queues: how many queues members see, and producers.
        perm: 2 (write), 4 (read) or 6.
        order: sends are refused while the broker as a whole is not writable.
        attributes: by name, as "message.type": "FIFO".
    """

    name: str = wire("topicName")
    read_queues: QueueCount = wire("readQueueNums")
    write_queues: QueueCount = wire("writeQueueNums")
    perm: int = wire("perm", demanded=True, default=6)
    order: bool = False
    filter_type: str = wire("topicFilterType", default="SINGLE_TAG")
    sys_flag: int = wire("topicSysFlag", default=0)
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def message_type(self) -> str:
        """What it is declared for, a MessageType; or a later release's, which is none of ours."""
        return self.attributes.get(ATTRIBUTE, MessageType.NORMAL)


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """All topics of a broker by name, or a page of them; `version` is for the next page."""

    also: ClassVar[Mapping[str, Any]] = {
        "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }

    topics: Mapping[str, TopicConfig] = wire("topicConfigTable")
    version: Version = wire("dataVersion", demanded=True, default="")


def encode_topic_config(config: TopicConfig) -> bytes:
    """Write a topic's settings as a broker answers them."""
    return write_body(config)


def encode_topic_configs(configs: Iterable[TopicConfig], version: Mapping[str, int]) -> bytes:
    """Write many topics' settings (TopicConfigAndMappingSerializeWrapper)."""
    topics = {config.name: config for config in configs}
    return write_body(TopicConfigs(topics, dumps(dict(version)).decode()))


def decode_topic_config(body: bytes) -> TopicConfig:
    """Read a topic's settings.

    Raises:
        ProtocolError: not a topic's settings.
    """
    return read_body(TopicConfig, body)


def decode_topic_configs(body: bytes) -> TopicConfigs:
    """Read the settings of all topics, or of a page of them.

    Raises:
        ProtocolError: not such a table.
    """
    found = read_body(TopicConfigs, body)
    total = sum(max(topic.read_queues, topic.write_queues) for topic in found.topics.values())
    check_total(total, MAX_LISTED_QUEUES, f"queues of {len(found.topics)} topics")
    return replace(found, topics={name: found.topics[name] for name in possible(found.topics)})


def changed_attributes(present: Mapping[str, str], changes: str | None) -> dict[str, str]:
    """Apply the attributes of a request that creates or changes a topic.

    Args:
        present: what the topic has; it keeps what is not mentioned.
        changes: "+name=value" to set, "-name" to take away, joined by commas.
    """
    result = dict(present)
    for entry in filter(None, (text.strip() for text in (changes or "").split(","))):
        name, _, value = entry[1:].partition("=")
        if entry.startswith(_SET):
            result[name] = value
        else:
            result.pop(name, None)
    return result


def decode_topic_list(body: bytes) -> tuple[str, ...]:
    """Read topic names, sorted (TopicList)."""
    return possible(TEXTS.at(load_object(body), "topicList"))


def encode_topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    """Write topic names (TopicList); a broker adds its address."""
    address = {} if broker_address is None else {"brokerAddr": broker_address}
    return dumps(address | {"topicList": list(topics)})
