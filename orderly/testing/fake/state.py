"""Everything one broker knows, a table each, and what it does of its own accord.

Topics, groups, queue locks, offsets, members, producers, pulls that wait, questions to members;
messages are in `store`. Not thread-safe, no clock: times are arguments.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, reply_to, request
from orderly.protocol.groups import GroupConfig
from orderly.protocol.heartbeat import (
    ConsumerData,
    ConsumeType,
    MessageModel,
    NotifyConsumerIdsChanged,
    Subscription,
)
from orderly.protocol.topics import ATTRIBUTE, MessageType, TopicConfig
from orderly.testing.fake.exchange import Call, Outgoing, RequestRefused
from orderly.testing.fake.name_server import NameServer
from orderly.testing.fake.store import Delays, Store

# --- the settings of groups: a broker makes a group when it first hears of it ---------------------


GROUP_NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
MAX_GROUP_NAME = 120  # characters


class GroupTable:
    """Settings by group; they outlive a restart. Not thread-safe."""

    def __init__(self) -> None:
        self._configs: dict[str, GroupConfig] = {}
        self._changes = 0

    def __contains__(self, name: str) -> bool:
        return name in self._configs

    @property
    def version(self) -> Mapping[str, int]:
        """Changes with everything in the table (DataVersion)."""
        return {"counter": self._changes, "stateVersion": 0, "timestamp": 0}

    def all(self) -> list[GroupConfig]:
        """All groups."""
        return list(self._configs.values())

    def find(self, name: str, *, create: bool) -> GroupConfig | None:
        """A group's settings; `create`: made by default if it has a possible name."""
        config = self._configs.get(name)
        if config is None and create and is_group_name(name):
            config = GroupConfig(name=name)
            self.put(config)
        return config

    def put(self, config: GroupConfig) -> None:
        """Create a group, or replace its settings."""
        self._configs[config.name] = config
        self._changes += 1

    def remove(self, name: str) -> None:
        """Delete a group, if it is there."""
        if self._configs.pop(name, None) is not None:
            self._changes += 1


def is_group_name(name: str) -> bool:
    """Whether a group may have that name (TopicValidator.validateGroup)."""
    return len(name) <= MAX_GROUP_NAME and GROUP_NAME.fullmatch(name) is not None


# --- topics, and which names a topic may have (TopicValidator) ------------------------------------


_MAX_TOPIC = 127  # characters
_MAX_GROUP_TOPIC = 255  # characters of a retry or dead letter topic
_SYSTEM_TOPICS = frozenset(
    {
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    }
)  # fmt: skip


class TopicTable:
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
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    limit = _MAX_GROUP_TOPIC if topic.startswith((RETRY_PREFIX, DEAD_PREFIX)) else _MAX_TOPIC
    if not GROUP_NAME.fullmatch(topic) or len(topic) > limit:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {topic!r:.300} holds illegal characters or more than {limit} characters",
        )


def check_not_system(topic: str) -> None:
    """Refuse to create or delete a topic of the broker's own."""
    if topic in _SYSTEM_TOPICS:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"topic {topic!r} is the system's own")


def check_type(attributes: Mapping[str, str]) -> None:
    """Refuse a message type that a broker with default settings does not take."""
    kind = attributes.get(ATTRIBUTE, MessageType.NORMAL)
    if kind == MessageType.MIXED:  # enableMixedMessageType is off
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
    if kind not in set(MessageType):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"value is not in set: {kind}")


# --- queue locks (RebalanceLockManager): who owns what, and until when ----------------------------
# Nothing is checked: any client may lock any name. The table is memory, so a restart frees all.


LOCK_LEASE = 60.0  # seconds from the last lock or renewal


class LockTable:
    """Locks by group and queue (topic, broker name, queue id). Not thread-safe."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, tuple[str, float]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: float
    ) -> list[MessageQueue]:
        """Lock or renew what is free, expired or the client's own; returns what it holds now."""
        held = self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since = held.get(queue, (client_id, now))
            if owner == client_id or now - since > LOCK_LEASE:
                held[queue] = (client_id, now)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free those of `queues` the client owns, expired or not; the others are passed over."""
        held = self._groups.get(group, {})
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]

    def owner(self, group: str, queue: MessageQueue) -> tuple[str | None, float]:
        """The client that locked a queue last and when, expired or not; None: nobody did."""
        return self._groups.get(group, {}).get(queue, (None, 0.0))

    def any_live(self, group: str, now: float) -> bool:
        """Whether a lock of the group has not expired: then its retries become dead letters."""
        return any(now - since <= LOCK_LEASE for _, since in self._groups.get(group, {}).values())


# --- offsets that groups have stored, with the marks of resets (ConsumerOffsetManager) ------------
# A reset is the stored offset at once; commits are ignored until the queue's next pull, which gets
# the new offset and takes the mark away. Offsets reach the disk every five seconds, for the first
# time ten seconds after the broker's start, and when it is stopped; a broker that is killed comes
# back with those. Marks of resets, and where pulls ended, are memory only.


FIRST_FLUSH = 10.0  # seconds from the start; BrokerController.initializeBrokerScheduledTasks
FLUSH_INTERVAL = 5.0  # seconds between two; flushConsumerOffsetInterval

_OffsetsOfGroups = dict[tuple[str, str], dict[int, int]]


class ConsumerOffsetTable:
    """Offsets by group, topic and queue id. Not thread-safe."""

    def __init__(self) -> None:
        self._stored: _OffsetsOfGroups = defaultdict(dict)
        self._on_disk: _OffsetsOfGroups = {}
        self.boot()

    # --- the disk ------------------------------------------------------------------------------

    def boot(self) -> None:
        """The broker starts: what was memory only is gone."""
        self._pulled: _OffsetsOfGroups = defaultdict(dict)
        self._resets: dict[tuple[str, str, int], int] = {}
        self._flush_at: float | None = None

    def elapse(self, now: float) -> None:
        """It is `now`: write to disk what was due. Call it before anything changes."""
        if self._flush_at is None:
            self._flush_at = now + FIRST_FLUSH
        if now >= self._flush_at:
            self.flush()
            self._flush_at += FLUSH_INTERVAL * (1 + (now - self._flush_at) // FLUSH_INTERVAL)
        # A real broker's timer does not care for the wall clock; one put back must not stop ours.
        self._flush_at = min(self._flush_at, now + FIRST_FLUSH)

    def flush(self) -> None:
        """Write everything to disk, as a broker that is stopped does."""
        self._on_disk = {place: dict(offsets) for place, offsets in self._stored.items()}

    def lose(self) -> None:
        """The broker was killed: only what is on disk is left."""
        self._stored = defaultdict(dict, {p: dict(offsets) for p, offsets in self._on_disk.items()})

    # --- what groups stored --------------------------------------------------------------------

    def stored(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or None."""
        return self._stored.get((group, topic), {}).get(queue_id)

    def all(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        """All committed offsets, by group and topic."""
        return self._stored

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store any offset; False: ignored, since a reset waits to be pulled."""
        if (group, topic, queue_id) in self._resets:
            return False
        self._stored[group, topic][queue_id] = offset
        return True

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's last pull ended; 0 if there was none."""
        return self._pulled.get((group, topic), {}).get(queue_id, 0)

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember where a pull ended."""
        self._pulled[group, topic][queue_id] = offset

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset and mark it as a reset."""
        self._resets[group, topic, queue_id] = offset
        self._stored[group, topic][queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Take the mark away and return its offset; None if there is none."""
        return self._resets.pop((group, topic, queue_id), None)

    def topics_of(self, group: str) -> set[str]:
        """Topics in which the group has an offset."""
        return {topic for one, topic in self._stored if one == group}

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have an offset in the topic."""
        return {group for group, one in self._stored if one == topic}

    def forget(self, topic: str) -> None:
        """Delete the offsets of a topic."""
        self._forget(1, topic)

    def forget_group(self, group: str) -> None:
        """Delete the offsets of a group."""
        self._forget(0, group)

    def _forget(self, place: int, name: str) -> None:
        for table in (self._stored, self._pulled):
            for key in [key for key in table if key[place] == name]:
                del table[key]
        self._resets = {key: at for key, at in self._resets.items() if key[place] != name}


# --- members of each group, by connection (ConsumerManager) ---------------------------------------
# A member is a connection that sent a heartbeat, with any client id: two connections of one
# client are two members. The group's subscriptions are those of the last heartbeat.


MEMBER_SILENCE = 120.0  # seconds without a heartbeat after which a member is gone


@dataclass(frozen=True, slots=True)
class OnlineMember:
    """A connection that is a member."""

    connection_id: int
    client_id: str
    address: str
    language: int
    version: int
    last_seen: float


@dataclass(slots=True)
class OnlineGroup:
    """A group with members online."""

    name: str
    consume_type: ConsumeType
    model: MessageModel
    consume_from: str
    members: dict[int, OnlineMember] = field(default_factory=dict)
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


class MemberTable:
    """The groups online. Not thread-safe."""

    def __init__(self) -> None:
        self._groups: dict[str, OnlineGroup] = {}

    def group(self, name: str) -> OnlineGroup | None:
        """A group, if it has members."""
        return self._groups.get(name)

    def find(self, group: str, client_id: str) -> OnlineMember | None:
        """A member by its client id."""
        online = self._groups.get(group)
        members = online.members.values() if online else ()
        return next((member for member in members if member.client_id == client_id), None)

    def subscribed_to(self, topic: str) -> set[str]:
        """The groups that subscribe to a topic."""
        return {name for name, group in self._groups.items() if topic in group.subscriptions}

    def register(self, data: ConsumerData, member: OnlineMember) -> set[int]:
        """Take in a heartbeat; returns the connections to notify of a change."""
        group = self._groups.get(data.group)
        if group is None:
            group = self._groups[data.group] = OnlineGroup(
                data.group, data.consume_type, data.message_model, data.consume_from
            )
        joined = member.connection_id not in group.members
        group.members[member.connection_id] = member
        group.consume_type, group.model = data.consume_type, data.message_model
        group.consume_from = data.consume_from
        changed = group.subscribe(data.subscriptions)
        return _listeners(group) if joined or changed else set()

    def remove(self, name: str, connection_id: int) -> set[int]:
        """Take a member out of a group; returns the connections to notify."""
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
            if now - member.last_seen >= MEMBER_SILENCE
        ]

    def next_silence(self) -> float | None:
        """When the next member will have been silent too long, unless it is heard of."""
        seen = [m.last_seen for group in self._groups.values() for m in group.members.values()]
        return min(seen) + MEMBER_SILENCE if seen else None


def _listeners(group: OnlineGroup) -> set[int]:
    # Members of a broadcasting group share nothing, so nobody is notified.
    return set() if group.model is MessageModel.BROADCASTING else set(group.members)


# --- which connections are producers of which group (ProducerManager) -----------------------------


class ProducerTable:
    """Client ids by group and connection. Not thread-safe."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, str]] = {}

    def register(self, groups: Iterable[str], connection_id: int, client_id: str) -> None:
        """Take in a heartbeat."""
        for group in groups:
            self._groups.setdefault(group, {})[connection_id] = client_id

    def remove(self, group: str, connection_id: int) -> None:
        """A producer says farewell."""
        members = self._groups.get(group, {})
        members.pop(connection_id, None)
        if not members:
            self._groups.pop(group, None)

    def disconnected(self, connection_id: int) -> None:
        """A connection ended."""
        for group in list(self._groups):
            self.remove(group, connection_id)

    def table(self) -> dict[str, list[str]]:
        """Client ids by group."""
        return {group: list(members.values()) for group, members in self._groups.items()}


# --- pulls that wait for a message (PullRequestHoldService) ---------------------------------------


HOLD_SCAN = 5.0  # seconds between two looks at what has expired, on full multiples


@dataclass(frozen=True, slots=True)
class HeldPull:
    """A pull that found nothing, and until when it may wait."""

    call: Call
    offset: int
    codes: Collection[int] | None
    deadline: float


class HeldPulls:
    """Waiting pulls by topic and queue id. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], list[HeldPull]] = defaultdict(list)

    def add(self, topic: str, queue_id: int, parked: HeldPull) -> None:
        """Let a pull wait."""
        self._waiting[topic, queue_id].append(parked)

    def wake(self, topic: str, queue_id: int, tag_code: int) -> list[Call]:
        """Take out the pulls of a queue that a new message with this tag is for."""
        waiting = self._waiting.get((topic, queue_id))
        if not waiting:
            return []
        woken = [p.call for p in waiting if p.codes is None or tag_code in p.codes]
        waiting[:] = [p for p in waiting if not (p.codes is None or tag_code in p.codes)]
        return woken

    def due(self, now: float, ends: dict[tuple[str, int], int]) -> list[Call]:
        """Take out the pulls that expired, or whose queue has grown to more than `ends` said."""
        taken = []
        for key, waiting in self._waiting.items():
            over = [p for p in waiting if now >= p.deadline or ends[key] > p.offset]
            taken += [parked.call for parked in over]
            waiting[:] = [parked for parked in waiting if parked not in over]
        return taken

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of each queue somebody waits for."""
        return [key for key, waiting in self._waiting.items() if waiting]

    def drop(self, connection_id: int) -> None:
        """Forget the pulls of a connection that ended."""
        for waiting in self._waiting.values():
            waiting[:] = [p for p in waiting if p.call.connection_id != connection_id]


def next_scan(now: float) -> float:
    """The first look after `now`."""
    return (math.floor(now / HOLD_SCAN) + 1) * HOLD_SCAN


# --- questions that a broker passes on to members, and the answers it waits for (Broker2Client) ---


Answers = dict[str, RemotingCommand]
Finish = Callable[[Call, Answers], RemotingCommand]


@dataclass(slots=True)
class _Relay:
    """One question on its way."""

    asker: Call
    finish: Finish
    deadline: float
    asked: dict[tuple[int, int], str] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)


class Relays:
    """Questions on their way to members. Not thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: list[_Relay] = []

    def ask(
        self,
        asker: Call,
        members: Iterable[OnlineMember],
        question: Callable[[], RemotingCommand],
        patience: float,
        finish: Finish,
    ) -> list[Outgoing]:
        """Ask members; `finish` makes the asker's answer of theirs, by client id.

        It is called when all have answered, or after `patience` seconds with those there are.
        """
        relay = _Relay(asker, finish, asker.now + patience)
        out = []
        for member in members:
            command = question()
            command.request_id = next(self._numbers)
            relay.asked[member.connection_id, command.request_id] = member.client_id
            out.append(Outgoing(member.connection_id, command))
        self._open.append(relay)
        return out

    def answered(self, connection_id: int, reply: RemotingCommand) -> list[Outgoing]:
        """Take in a member's answer; returns the asker's if that was the last one."""
        key = (connection_id, reply.request_id)
        for relay in self._open:
            if key in relay.asked:
                relay.answers[relay.asked.pop(key)] = reply
        return self._finish(lambda relay: not relay.asked)

    def expire(self, now: float) -> list[Outgoing]:
        """Answer the askers of questions that took too long."""
        return self._finish(lambda relay: now >= relay.deadline)

    def disconnected(self, connection_id: int) -> list[Outgoing]:
        """A connection ended: its answers will not come, and its questions are over."""
        self._open = [r for r in self._open if r.asker.connection_id != connection_id]
        lost = [key for relay in self._open for key in relay.asked if key[0] == connection_id]
        out = []
        for key in lost:
            failure = RemotingCommand(ResponseCode.SYSTEM_ERROR, key[1], remark="the member left")
            out += self.answered(connection_id, failure)
        return out

    def next_deadline(self) -> float | None:
        """When the next question will have taken too long."""
        return min((relay.deadline for relay in self._open), default=None)

    def _finish(self, over: Callable[[_Relay], bool]) -> list[Outgoing]:
        done = [relay for relay in self._open if over(relay)]
        self._open = [relay for relay in self._open if not over(relay)]
        return [
            Outgoing(relay.asker.connection_id, relay.finish(relay.asker, relay.answers))
            for relay in done
        ]


def pass_on(asker: Call, answers: Answers) -> RemotingCommand:
    """The only member's answer, as it is; code 207 if it gave none."""
    if not answers:
        remark = "the member did not answer in time"
        return asker.reply(ResponseCode.CONSUME_MSG_TIMEOUT, remark)
    (answer,) = answers.values()
    return reply_to(
        asker.command, answer.code, remark=answer.remark, ext=answer.ext, body=answer.body
    )


# --- one broker -----------------------------------------------------------------------------------


class BrokerState:
    """One broker. Not thread-safe.

    Attributes:
        out: what is to be sent besides the answer to the present request.
        settings: those a request can change; the others have a real broker's defaults.
    """

    def __init__(self, name: str, address: str, name_server: NameServer) -> None:
        self.name = name
        self.address = address
        self.name_server = name_server
        self.topics = TopicTable()
        self.groups = GroupTable()
        self.store = Store(name, address)
        self.offsets = ConsumerOffsetTable()
        self.delays = Delays()
        self.out: list[Outgoing] = []
        self.settings = {
            "autoCreateSubscriptionGroup": "true",
            "autoCreateTopicEnable": "false",
            "brokerPermission": "6",
        }
        self.boot()

    def boot(self) -> None:
        """Start over: disks are kept, memory is not. Then announce what there is."""
        self.locks = LockTable()
        self.members = MemberTable()
        self.producers = ProducerTable()
        self.parked = HeldPulls()
        self.relays = Relays()
        self.offsets.boot()
        self.name_server.join(self.name, self.address)
        self.announce(self.topics.all())

    def enabled(self, setting: str) -> bool:
        """Whether a yes-or-no setting is on."""
        return self.settings[setting] == "true"

    @property
    def permission(self) -> int:
        """The bits of what this broker may do as a whole: 4 read, 2 write."""
        return int(self.settings["brokerPermission"])

    def announce(self, configs: Iterable[TopicConfig]) -> None:
        """Register topics at the name server."""
        self.name_server.announce(self.name, configs, self.permission)

    def create_topic(self, config: TopicConfig) -> TopicConfig:
        """Create a topic, or replace its settings."""
        self.topics.put(config)
        self.announce([config])
        return config

    def delete_topic(self, name: str) -> None:
        """Delete a topic, its messages, and what groups have stored of it, all at once.

        Pulls that wait for it go on waiting. Others notify the name server.
        """
        self.topics.remove(name)
        self.store.forget(name)
        self.offsets.forget(name)

    def ensure_topic(self, name: str, queues: int = 1) -> TopicConfig:
        """A topic of the broker's own making, such as a group's retry topic."""
        found = self.topics.get(name)
        return found or self.create_topic(
            TopicConfig(name=name, read_queues=queues, write_queues=queues)
        )

    def notify(self, group: str, connections: Iterable[int]) -> None:
        """Notify members that the group's members or topics changed."""
        header = NotifyConsumerIdsChanged(consumer_group=group)
        config = self.groups.find(group, create=False)
        if config is None or config.notify_members_changed:
            for connection_id in sorted(connections):
                command = request(header.code, to_ext(header), oneway=True)
                self.out.append(Outgoing(connection_id, command))
