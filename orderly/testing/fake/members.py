"""The members of each group at one broker, by connection (ConsumerManager).

A member is a connection that sent a heartbeat, whatever its client id: two connections of one
client are two members. The group's subscriptions are those of the last heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from orderly.protocol.heartbeat import ConsumerData, ConsumeType, MessageModel, Subscription

SILENCE = 120.0  # seconds without a heartbeat after which a member is gone


@dataclass(frozen=True, slots=True)
class Member:
    """A connection that is a member."""

    connection_id: int
    client_id: str
    address: str
    language: int
    version: int
    last_seen: float


@dataclass(slots=True)
class Group:
    """A group with members online."""

    name: str
    consume_type: ConsumeType
    model: MessageModel
    consume_from: str
    members: dict[int, Member] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    def subscribe(self, wanted: Iterable[Subscription]) -> bool:
        """Replace the topics; of one topic the newest wins. True: topics came or went."""
        new = {data.topic: data for data in wanted}
        changed = new.keys() != self.subscriptions.keys()
        for topic, data in new.items():
            old = self.subscriptions.get(topic)
            if old is not None and old.version >= data.version:
                new[topic] = old
        self.subscriptions = new
        return changed


class Members:
    """The groups online. Not thread-safe."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def group(self, name: str) -> Group | None:
        """A group, if it has members."""
        return self._groups.get(name)

    def find(self, group: str, client_id: str) -> Member | None:
        """A member by its client id."""
        online = self._groups.get(group)
        members = online.members.values() if online else ()
        return next((member for member in members if member.client_id == client_id), None)

    def subscribed_to(self, topic: str) -> set[str]:
        """The groups that subscribe to a topic."""
        return {name for name, group in self._groups.items() if topic in group.subscriptions}

    def register(self, data: ConsumerData, member: Member) -> set[int]:
        """Take in a heartbeat; returns the connections to be told that something changed."""
        group = self._groups.get(data.group)
        if group is None:
            group = self._groups[data.group] = Group(
                data.group, data.consume_type, data.message_model, data.consume_from
            )
        joined = member.connection_id not in group.members
        group.members[member.connection_id] = member
        group.consume_type, group.model = data.consume_type, data.message_model
        group.consume_from = data.consume_from
        changed = group.subscribe(data.subscriptions)
        return _listeners(group) if joined or changed else set()

    def remove(self, name: str, connection_id: int) -> set[int]:
        """Take a member out of a group; returns the connections to be told."""
        group = self._groups.get(name)
        if group is None or group.members.pop(connection_id, None) is None:
            return set()
        if not group.members:
            del self._groups[name]
        return _listeners(group)

    def groups_of(self, connection_id: int) -> list[str]:
        """The groups this connection is a member of."""
        return [n for n, group in self._groups.items() if connection_id in group.members]

    def silent(self, now: float) -> list[tuple[str, int]]:
        """Group and connection of each member that has been silent too long."""
        return [
            (name, member.connection_id)
            for name, group in self._groups.items()
            for member in group.members.values()
            if now - member.last_seen >= SILENCE
        ]

    def next_silence(self) -> float | None:
        """When the next member will have been silent too long, unless it is heard of."""
        seen = [m.last_seen for group in self._groups.values() for m in group.members.values()]
        return min(seen) + SILENCE if seen else None


def _listeners(group: Group) -> set[int]:
    # Members of a broadcasting group share nothing, so nobody is told.
    return set() if group.model is MessageModel.BROADCASTING else set(group.members)
