"""The queues in which a group may have parked keys: found, read one by one, searched for a key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from orderly.client import Client
from orderly.errors import ConfigError, OrderlyError, RemotingError, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.parking.queue import ParkedQueue
from orderly.ordering.parking.keys import Key, ParkedKey
from orderly.ordering.state.topic import park_topic

T = TypeVar("T")
Unknown = tuple[tuple[MessageQueue, OrderlyError], ...]
"""Source queues that could not be read, and why."""


class NotParked(ConfigError):
    """A key that is not parked, or not any more."""


class ParkedQueues:
    """Only those on brokers that the name server lists: nobody else knows of the others.

    Not thread-safe; every method blocks, and raises OrderlyError if no name server answers, or
    none of the group's park topics is listed.

    Args:
        client: of the cluster.
        group: the consumer group, as the broker names it.
        topic: only of this source topic; None: of all.
    """

    def __init__(self, client: Client, group: str, topic: str | None) -> None:
        self._client = client
        self._group = group
        self._topic = topic

    def holders(self, key: Key) -> list[tuple[ParkedQueue, ParkedKey]]:
        """Where a key is parked."""
        found, unknown = self.each(lambda queue: _held(queue, key))
        holders = [holder for holder in found if holder is not None]
        if not holders:
            raise _not_parked(self._group, key, unknown)
        topics = sorted({queue.queue.topic for queue, _ in holders})
        if len(topics) > 1:
            raise ConfigError(
                f"key {key!r} is parked in several topics: {', '.join(topics)}; name one (--topic)"
            )
        return holders

    def each(self, read: Callable[[ParkedQueue], T]) -> tuple[list[T], Unknown]:
        """Read every queue; a broker that did not answer is not asked again."""
        found: list[T] = []
        unknown: list[tuple[MessageQueue, OrderlyError]] = []
        silent: dict[str, OrderlyError] = {}
        for queue in self.all():
            name = queue.queue.broker_name
            try:
                if name in silent:
                    raise silent[name]
                found.append(read(queue))
            except OrderlyError as error:
                unknown.append((queue.queue, error))
                if isinstance(error, RemotingError):
                    silent[name] = error
        return found, tuple(unknown)

    def all(self) -> list[ParkedQueue]:
        """Every queue of the group's park topics, and so every source queue that ever had a key."""
        return [
            ParkedQueue(self._client, self._group, replace(queue, topic=topic))
            for topic in self._topics()
            for queue in self._client.routes.get(park_topic(self._group, topic)).read_queues()
        ]

    def _topics(self) -> list[str]:
        """The source topics for which the group has a park topic."""
        present = frozenset(self._client.admin.topics())
        wanted = present if self._topic is None else (self._topic,)
        found = [topic for topic in wanted if park_topic(self._group, topic) in present]
        if not found:  # no broker that is listed knows; that is not the same as "nothing is parked"
            of_topic = "" if self._topic is None else f" for {self._topic}"
            raise RouteError(
                f"the name server lists no park topic of group {self._group}{of_topic}: the name is"
                " wrong, no member has consumed with order='key', or its brokers are down"
            )
        return sorted(found)


def _held(queue: ParkedQueue, key: Key) -> tuple[ParkedQueue, ParkedKey] | None:
    parked = next((found for found in queue.on_record().parked if found.key == key), None)
    return None if parked is None else (queue, parked)


def _not_parked(group: str, key: Key, unknown: Unknown) -> OrderlyError:
    if unknown:
        queue, error = unknown[0]
        return OrderlyError(
            f"whether key {key!r} is parked in group {group} is not known, since {queue} could not"
            f" be read ({error}); nothing was done"
        )
    return NotParked(
        f"key {key!r} is not parked in group {group}: `orderly parked list {group}` shows which"
        " are; a number is another key than its text (--int)"
    )
