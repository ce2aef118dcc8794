"""What brokers know of a group beside the messages: its topics, what is parked, what is consumed.

Looking only: no lock, no commit, not as a member.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.monitoring.dead_letters import require_readable
from orderly.monitoring.parking.queues import ParkedQueues
from orderly.namespace import DEAD_PREFIX
from orderly.ordering.state.topic import park_topic
from orderly.protocol.parked_key import ParkedKey
from orderly.spark.jobs.consumed import committed_on


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a group has set aside.

    Attributes:
        topics: to read: its park topics, and its dead letters.
        parked: by source queue, the keys that are parked on record.
        unknown: source queues whose record could not be read, and why.
    """

    topics: tuple[str, ...]
    parked: tuple[tuple[MessageQueue, ParkedKey], ...]
    unknown: tuple[tuple[MessageQueue, OrderlyError], ...]

    @property
    def parked_keys(self) -> int:
        """Keys of topics that are parked on record, whether or not their messages still exist."""
        return len({(queue.topic, it.key) for queue, it in self.parked})


def holdings(client: Client, group: str) -> Holdings:
    """Ask for a group's park topics and dead letters.

    Raises:
        NoPermission: its dead letters may not be read.
        OrderlyError: no name server answers.
    """
    present = frozenset(client.admin.topics())
    sources = [topic for topic in present if park_topic(group, topic) in present]
    topics = [park_topic(group, topic) for topic in sources]
    dead = DEAD_PREFIX + group
    if dead in present:
        require_readable(client.routes.refresh(dead))
        topics.append(dead)
    if not sources:
        return Holdings(tuple(topics), (), ())
    queues = ParkedQueues(client, group, None)
    found, unknown = queues.each(lambda it: [(it.queue, key) for key in it.on_record().parked])
    return Holdings(
        tuple(sorted(topics)), tuple(pair for pairs in found for pair in pairs), unknown
    )


def consumed(client: Client, group: str, topics: Iterable[str]) -> dict[MessageQueue, int]:
    """Up to where a group has committed in the queues of some topics.

    Raises:
        OrderlyError: a broker does not answer.
    """
    offsets: dict[MessageQueue, int] = {}
    for topic in topics:
        offsets |= committed_on(client, topic, (group,)).get(group, {})
    return offsets
