"""Who is in a group, and what each member reports of itself.

Every broker is asked, for each knows only the members that heartbeat to it. A member is asked
through a broker that has its heartbeat; one that runs behind a proxy, or hangs, does not answer.

A proxy in cluster mode keeps its gRPC clients to itself, and brokers answer that nobody of such a
group is online. Proxies inform each other of their clients in a topic of their own, every 10 s or
so for each client (HeartbeatSyncer): while that grows, there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from orderly.client import Client
from orderly.client.admin import joined
from orderly.client.calls import ONLY_SUCCESS
from orderly.client.pipeline import NotAsked, Question
from orderly.errors import OrderlyError, TopicNotFound
from orderly.monitoring.backlog.members import is_broadcasting, is_ordered
from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.monitoring.collecting.budgets import Budgets, longest_waiting, within
from orderly.monitoring.collecting.questions import Asking, topic_stats
from orderly.monitoring.collecting.selection import PROXY_TOPIC
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.members import GetRunningInfo, RunningInfo, decode_running_info
from orderly.protocol.statistics import (
    ConsumerConnections,
    GetConsumerConnections,
    TopicOffset,
    decode_connections,
)

_FRESH = 60.0  # seconds; clocks that differ by more hide a proxy
HIDDEN = {"proxy": "a proxy is there, and brokers do not know who is connected to it"}
"""In the place of errors of brokers that could not say who is connected."""


def may_be_hidden(asking: Asking) -> bool:
    """Whether a proxy has listed clients of its own lately. Blocks; asks once where one may be."""
    answers = asking.ask([(broker, topic_stats(PROXY_TOPIC)) for broker in asking.proxied])
    return any(_grows(a.values()) for a in answers if not isinstance(a, OrderlyError))


def is_proxied(client: Client) -> bool:
    """The same, asked with a client alone. Blocks.

    Raises:
        OrderlyError: no answer, so that it is not known.
    """
    try:
        return _grows(client.admin.topic_stats(PROXY_TOPIC).values())
    except TopicNotFound:
        return False


def _grows(queues: Iterable[TopicOffset]) -> bool:
    newest = max((queue.last_update_time for queue in queues), default=0.0)
    return abs(time.time() - newest) < _FRESH


# --- members --------------------------------------------------------------------------------------


_ONLINE_OR_NOT = ONLY_SUCCESS | {ResponseCode.CONSUMER_NOT_ONLINE}
# A group of which nobody answered waits so many times as long for its next turn: clients behind a
# gRPC proxy never answer, and each question holds a thread of the broker for 10 s.
_SILENCE = 10


@dataclass(frozen=True, slots=True)
class Online:
    """Who is in a group at one moment.

    Attributes:
        connections: merged over the brokers; None: no broker that answered knows a member.
        errors: of brokers that did not answer, by name.
        through: by client id, a broker that has its heartbeat.
    """

    connections: ConsumerConnections | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    through: Mapping[str, str] = field(default_factory=dict)


def ask_who_is_online(
    asking: Asking, brokers: Collection[str], groups: Iterable[str]
) -> dict[str, Online]:
    """Ask every broker, also those that are away, for the members of some groups."""
    asked = [(group, broker) for group in groups for broker in brokers]
    answers = asking.ask([(broker, _who(group)) for group, broker in asked])
    by_group: dict[str, dict[str, ConsumerConnections | OrderlyError | None]] = {}
    for (group, broker), answer in zip(asked, answers, strict=True):
        by_group.setdefault(group, {})[broker] = answer
    return {group: _online(answered) for group, answered in by_group.items()}


def _seen_by_all(
    asking: Asking, brokers: Collection[str], groups: Iterable[str]
) -> dict[str, Online]:
    """The same; where a proxy may have members of a group, it is not known that nobody is there."""
    found = ask_who_is_online(asking, brokers, groups)
    empty = [name for name, it in found.items() if it.connections is None and not it.errors]
    if empty and may_be_hidden(asking):
        found |= {name: replace(found[name], errors=HIDDEN) for name in empty}
    return found


def _who(group: str) -> Question[ConsumerConnections | None]:
    header = GetConsumerConnections(consumer_group=group)
    what = f"the members of group {group!r}"
    return Question(request(header.code, to_ext(header)), _read_who, what, _ONLINE_OR_NOT)


def _read_who(reply: RemotingCommand) -> ConsumerConnections | None:
    return decode_connections(reply.body) if reply.code == ResponseCode.SUCCESS else None


def _online(answered: Mapping[str, ConsumerConnections | OrderlyError | None]) -> Online:
    errors = {broker: str(a) for broker, a in answered.items() if isinstance(a, OrderlyError)}
    found = {broker: a for broker, a in answered.items() if isinstance(a, ConsumerConnections)}
    through = {
        member.client_id: broker for broker, at in found.items() for member in at.connections
    }
    return Online(reduce(joined, found.values()) if found else None, errors, through)


@dataclass(frozen=True, slots=True)
class ReachableMember:
    """A member of a group, and the broker to ask it through."""

    group: str
    client_id: str
    broker: str


def ask_what_they_do(
    asking: Asking, members: Sequence[ReachableMember]
) -> dict[str, dict[str, RunningInfo]]:
    """Ask members what they do, without the stacks of their threads.

    Returns:
        By group and client id; who did not answer is not in it, nor is a group of which nobody
        could be asked.
    """
    answers = asking.ask([(member.broker, _doing(member)) for member in members])
    found: dict[str, dict[str, RunningInfo]] = {}
    for member, answer in zip(members, answers, strict=True):
        if not isinstance(answer, NotAsked):
            group = found.setdefault(member.group, {})
            if isinstance(answer, RunningInfo):
                group[member.client_id] = answer
    return found


def _doing(member: ReachableMember) -> Question[RunningInfo]:
    header = GetRunningInfo(consumer_group=member.group, client_id=member.client_id)
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: decode_running_info(reply.body),
        f"the running info of {member.client_id!r} in group {member.group!r}",
        relayed=True,
    )


def with_online(reading: GroupReading, online: Online, now: float) -> GroupReading:
    """A reading with who is in the group; what members that left had reported is dropped."""
    connections = online.connections
    there = {member.client_id for member in connections.connections} if connections else set()
    return replace(
        reading,
        read_at=now,
        connections=connections,
        errors=online.errors,
        running={name: info for name, info in reading.running.items() if name in there},
    )


class MemberPoller:
    """Who is in each group and what they do, as far as it was asked. One thread at a time.

    Args:
        budgets: of a scan.
        asked: groups that come first.
    """

    def __init__(self, budgets: Budgets, asked: Collection[str]) -> None:
        self._budgets = budgets
        self._asked = asked
        self._known: dict[str, GroupReading] = {}
        self._through: dict[str, Mapping[str, str]] = {}

    def of(self, group: str) -> GroupReading:
        """What is known of a group's members; nothing else is in it."""
        return self._known.get(group) or GroupReading(group)

    def ask(self, asking: Asking, scan: Scan, lagging: Collection[str]) -> None:
        """Ask for the members of those groups whose turn it is, and them; forget other groups.

        Args:
            asking: of the scan.
            scan: its groups and brokers.
            lagging: those of the groups that have something to finish.
        """
        groups = scan.groups
        self._known = {group: self.of(group) for group in groups}
        urgent = {*lagging, *(group for group in groups if is_ordered(self.of(group)))}
        due = self._due(groups, lambda group: self.of(group).read_at, urgent)
        now = time.time()
        chosen = due[: self._budgets.groups]
        for group, online in _seen_by_all(asking, scan.brokers, chosen).items():
            self._known[group] = with_online(self.of(group), online, now)
            self._through[group] = online.through
        self._through = {group: self._through.get(group, {}) for group in groups}
        self._ask_members(asking, [group for group in groups if self._worth_asking(group, urgent)])

    def _due(
        self, groups: Iterable[str], asked_at: Callable[[str], float], urgent: Collection[str]
    ) -> list[str]:
        every, now = self._budgets.every, time.time()
        return longest_waiting(groups, asked_at, now, every=every, first=self._asked, urgent=urgent)

    def _worth_asking(self, group: str, urgent: Collection[str]) -> bool:
        """Somebody is there, and how they do matters, or is not known to matter not."""
        reading = self.of(group)
        if reading.connections is None or is_broadcasting(reading):
            return False
        matters = group in urgent or group in self._asked
        return matters or (is_ordered(reading) is None and reading.running_at == 0.0)

    def _ask_members(self, asking: Asking, groups: Collection[str]) -> None:
        due = self._due(groups, self._heard_at, groups)
        wholes = [self._members(group) for group in due]
        chosen = list(within(self._budgets.members, wholes))
        now = time.time()
        answers = ask_what_they_do(asking, [member for whole in chosen for member in whole])
        for group, running in answers.items():
            self._known[group] = replace(self.of(group), running=running, running_at=now)

    def _heard_at(self, group: str) -> float:
        """When members were asked, for their next turn: later if nobody answered."""
        reading = self.of(group)
        silent = reading.running_at and not reading.running
        return reading.running_at + (self._budgets.every * (_SILENCE - 1) if silent else 0.0)

    def _members(self, group: str) -> list[ReachableMember]:
        """All that can be asked; who answered before comes first."""
        known = self.of(group).running
        through = sorted(self._through[group].items(), key=lambda each: each[0] not in known)
        return [ReachableMember(group, name, broker) for name, broker in through]
