"""Topics' settings on one broker (TopicConfig): the answers to GetTopicConfig(s)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    MAX_LISTED_QUEUES,
    as_object,
    as_text,
    bool_in,
    check_total,
    count_in,
    data_version_in,
    int_in,
    load_object,
    object_in,
    text_in,
)
from orderly.protocol.message_types import ATTRIBUTE, MessageType

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

    name: str
    read_queues: int
    write_queues: int
    perm: int = 6
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def message_type(self) -> str:
        """What it is declared for, a MessageType; or a later release's, which is none of ours."""
        return self.attributes.get(ATTRIBUTE, MessageType.NORMAL)


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """All topics of a broker by name, or a page of them; `version` is for the next page."""

    topics: Mapping[str, TopicConfig]
    version: str = ""


def encode_topic_config(config: TopicConfig) -> bytes:
    """Write a topic's settings as a broker answers them."""
    return dumps(_to_json(config))


def encode_topic_configs(configs: Iterable[TopicConfig], version: Mapping[str, int]) -> bytes:
    """Write many topics' settings (TopicConfigAndMappingSerializeWrapper)."""
    return dumps(
        {
            "dataVersion": dict(version),
            "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
            "topicConfigTable": {config.name: _to_json(config) for config in configs},
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
    )


def _to_json(config: TopicConfig) -> dict[str, Any]:
    return {
        "attributes": dict(config.attributes),
        "order": config.order,
        "perm": config.perm,
        "readQueueNums": config.read_queues,
        "topicFilterType": config.filter_type,
        "topicName": config.name,
        "topicSysFlag": config.sys_flag,
        "writeQueueNums": config.write_queues,
    }


def decode_topic_config(body: bytes) -> TopicConfig:
    """Read a topic's settings.

    Raises:
        ProtocolError: not a topic's settings.
    """
    return _from_json(load_object(body))


def decode_topic_configs(body: bytes) -> TopicConfigs:
    """Read the settings of all topics, or of a page of them.

    Raises:
        ProtocolError: not such a table.
    """
    fields = load_object(body)
    table = object_in(fields, "topicConfigTable")
    topics = {name: _from_json(as_object(one, "a topic")) for name, one in table.items()}
    total = sum(max(topic.read_queues, topic.write_queues) for topic in topics.values())
    check_total(total, MAX_LISTED_QUEUES, f"queues of {len(topics)} topics")
    return TopicConfigs(topics, data_version_in(fields))


def _from_json(fields: dict[str, Any]) -> TopicConfig:
    attributes = object_in(fields, "attributes")
    return TopicConfig(
        name=text_in(fields, "topicName"),
        read_queues=count_in(fields, "readQueueNums"),
        write_queues=count_in(fields, "writeQueueNums"),
        perm=int_in(fields, "perm"),
        order=bool_in(fields, "order"),
        filter_type=text_in(fields, "topicFilterType", "SINGLE_TAG"),
        sys_flag=int_in(fields, "topicSysFlag", 0),
        attributes={name: as_text(text, "an attribute") for name, text in attributes.items()},
    )


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
