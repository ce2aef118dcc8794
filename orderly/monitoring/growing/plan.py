"""What becomes of a topic's settings on each broker, step by step. Pure.

A key's queue is its hash modulo the number of queues, so more queues move keys; a message in its
new queue may be handled before earlier ones in the old queue. Nothing must be left in those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from orderly.errors import ConfigError
from orderly.model import Permission
from orderly.protocol.topic_config import TopicConfig
from orderly.selectors.layout import Layout

_BOTH = int(Permission.READ | Permission.WRITE)


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings that a topic has, and will have, by broker.

    Attributes:
        topic: its name at the brokers.
        queues: on each broker, in the end.
        present: the settings as they are.
    """

    topic: str
    queues: int
    present: Mapping[str, TopicConfig]

    @property
    def needed(self) -> bool:
        """Whether anything is to be changed."""
        return self.grown != dict(self.present)

    @property
    def closed(self) -> dict[str, TopicConfig]:
        """The first step: as it is, but not to be written to."""
        return {name: _closed(config) for name, config in self.present.items()}

    @property
    def widened(self) -> dict[str, TopicConfig]:
        """The second step, when it is drained: with all queues, still not to be written to."""
        return {name: _closed(config) for name, config in self.grown.items()}

    @property
    def grown(self) -> dict[str, TopicConfig]:
        """The last step: open, with all queues."""
        queues = self.queues
        return {
            name: replace(config, read_queues=queues, write_queues=queues, perm=_BOTH)
            for name, config in self.present.items()
        }

    @property
    def pin(self) -> Layout:
        """What producers are to be pinned to from then on."""
        return Layout(tuple((name, self.queues) for name in sorted(self.present)))


def make_plan(
    topic: str, queues: int, present: Mapping[str, TopicConfig], order_conf: str = ""
) -> Plan:
    """Say how a topic gets `queues` queues on each of its brokers.

    Args:
        topic: its name at the brokers.
        queues: on each broker.
        present: its settings, by broker.
        order_conf: the name server's order configuration of the topic, if it has one.

    Raises:
        ConfigError: that would be fewer, the topic cannot be read, or its layout is not made by
            the brokers' settings.
    """
    if order_conf:
        raise ConfigError(
            f"the queues of {topic} are told by the name server's order configuration"
            f" ({order_conf}), which this command does not change: stop the producers, wait until"
            f" `orderly backlog -t {topic}` shows 0 everywhere, then use mqadmin updateTopic and"
            " updateOrderConf"
        )
    for name, config in sorted(present.items()):
        most = max(config.read_queues, config.write_queues)
        if most > queues:
            raise ConfigError(
                f"topic {topic} has {most} queues on broker {name}, more than {queues}: only"
                " growing is done here, since shrinking would strand what is in the last queues."
                f" Give --queues {most} or more"
            )
        if Permission.READ not in Permission(config.perm):
            raise ConfigError(
                f"topic {topic} may not be read on broker {name}, so it cannot be drained:"
                f" set its permission to 6 (mqadmin updateTopicPerm -t {topic} -p 6)"
            )
    return Plan(topic, queues, dict(present))


def writable(config: TopicConfig) -> bool:
    """Whether these settings let producers write."""
    return Permission.WRITE in Permission(config.perm)


def _closed(config: TopicConfig) -> TopicConfig:
    return replace(config, perm=config.perm & ~int(Permission.WRITE))
