"""The topics of one broker, and which names a topic may have (TopicValidator)."""

from __future__ import annotations

from collections.abc import Mapping

from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from orderly.protocol.codes import ResponseCode
from orderly.protocol.message_types import ATTRIBUTE, MessageType
from orderly.protocol.topic_config import TopicConfig
from orderly.testing.fake.exchange import Refused
from orderly.testing.fake.groups import NAME

_MAX_TOPIC = 127  # characters
_MAX_GROUP_TOPIC = 255  # characters of a retry or dead letter topic
_SYSTEM = frozenset(
    {
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    }
)  # fmt: skip


class Topics:
    """Settings by topic; they outlive a restart. Not thread-safe."""

    def __init__(self) -> None:
        self._configs: dict[str, TopicConfig] = {}
        self._changes = 0

    @property
    def version(self) -> Mapping[str, int]:
        """Changes with everything in the table (DataVersion)."""
        return {"counter": self._changes, "stateVersion": 0, "timestamp": 0}

    def all(self) -> list[TopicConfig]:
        """All topics."""
        return list(self._configs.values())

    def get(self, name: str) -> TopicConfig | None:
        """A topic's settings."""
        return self._configs.get(name)

    def put(self, config: TopicConfig) -> None:
        """Create a topic, or replace its settings."""
        self._configs[config.name] = config
        self._changes += 1

    def remove(self, name: str) -> None:
        """Delete a topic's settings."""
        self._configs.pop(name, None)
        self._changes += 1


def check_name(topic: str) -> None:
    """Refuse a name that no topic may have."""
    if not topic.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    limit = _MAX_GROUP_TOPIC if topic.startswith((RETRY_PREFIX, DEAD_PREFIX)) else _MAX_TOPIC
    if not NAME.fullmatch(topic) or len(topic) > limit:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {topic!r:.300} holds illegal characters or more than {limit} characters",
        )


def check_not_system(topic: str) -> None:
    """Refuse to create or delete a topic of the broker's own."""
    if topic in _SYSTEM:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"topic {topic!r} is the system's own")


def check_type(attributes: Mapping[str, str]) -> None:
    """Refuse a message type that a broker with default settings does not take."""
    kind = attributes.get(ATTRIBUTE, MessageType.NORMAL)
    if kind == MessageType.MIXED:  # enableMixedMessageType is off
        raise Refused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
    if kind not in set(MessageType):
        raise Refused(ResponseCode.SYSTEM_ERROR, f"value is not in set: {kind}")
