"""How many messages and bytes one queue may cache: a topic's limits split over its queues."""

from __future__ import annotations

from orderly.config import ConsumerConfig


def queue_limits(config: ConsumerConfig, queues: int) -> tuple[int, int]:
    """Return (messages, bytes) a queue may cache while `queues` of its topic are held.

    A limit for the topic replaces the one per queue (Java: RebalancePushImpl.messageQueueChanged);
    each queue gets at least 1.
    """
    return (
        _split(config.pull_threshold, config.pull_threshold_topic, queues),
        _split(config.pull_threshold_bytes, config.pull_threshold_topic_bytes, queues),
    )


def _split(per_queue: int, of_topic: int | None, queues: int) -> int:
    return per_queue if of_topic is None else max(1, of_topic // max(1, queues))
