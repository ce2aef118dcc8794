"""A sample of one topic's keys and where they lie, read without a trace: see `topic_sample`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orderly.client import Client
from orderly.model import ReceivedMessage
from orderly.monitoring.collecting.topic_sample import SampleSettings, Tell, TopicLook
from orderly.monitoring.placement.findings import Findings, judge
from orderly.monitoring.placement.sightings import Sightings

_GO_KEY = "SHARDING_KEY"  # what Go's WithShardingKey writes, without the underscores of all others


@dataclass(frozen=True, slots=True)
class TopicPlacement:
    """What was found.

    Attributes:
        findings: by the sample.
        planned: how many messages were to be read.
        errors: of brokers that did not answer, by name.
    """

    findings: Findings
    planned: int
    errors: Mapping[str, str]


def look_at_placement(
    client: Client, topic: str, settings: SampleSettings, tell: Tell = lambda _, __: None
) -> TopicPlacement:
    """See where a topic's keys lie. Blocks.

    Args:
        client: need not be started.
        topic: as the brokers name it.
        settings: see their class; `what_if` is not used.
        tell: is told how many messages have been read, and of how many.

    Raises:
        TopicNotFound: there is no such topic.
        OrderlyError: no name server answers, or the topic has no queue to write to.
    """
    look = TopicLook(client, topic, settings)
    seen = Sightings()
    for message in look.sample(tell):
        seen.add(_key(message), message.queue, message.store_time)
    return TopicPlacement(judge(look.layout, topic, seen), look.planned, look.errors)


def _key(message: ReceivedMessage) -> str | None:
    key = message.sharding_key
    return message.properties.get(_GO_KEY) if key is None else key
