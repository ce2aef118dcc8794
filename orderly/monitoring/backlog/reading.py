"""What one scan of a cluster read: raw numbers, before anybody judges them.

A scan covers hundreds of groups and ten thousands of queues, so numbers are kept in columns: the
n-th number of a group belongs to the n-th queue of its topic. Times are seconds since the epoch;
`*_at` of this process is its own clock, `stored_at` and the like are the broker's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.protocol.members import RunningInfo
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.statistics import ConsumerConnections

NEVER = -1  # an offset that was never committed
NOT_READ = -2  # an offset that could not be read


@dataclass(frozen=True, slots=True)
class TopicReading:
    """A topic's queues, sorted, and their offsets; NOT_READ where a broker did not answer.

    Attributes:
        topic: as the brokers name it.
        queues: to read or to write, or with a committed offset.
        minimum: oldest offset stored, of each queue.
        maximum: offset the next message gets, of each queue.
        stored_at: when each queue last grew; 0.0 if not known (never asked of cold brokers).
        unread: queues that exist to write to, and that no consumer reads.
        closed: brokers at which the topic's permission allows no reading.
    """

    topic: str
    queues: tuple[MessageQueue, ...]
    minimum: tuple[int, ...]
    maximum: tuple[int, ...]
    stored_at: tuple[float, ...]
    unread: frozenset[MessageQueue] = frozenset()
    closed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """One broker in one scan.

    Attributes:
        name: the broker's.
        error: why it did not answer; None: it did.
        requests: how many were sent to it.
        seconds: until its last answer.
        clock_offset: its clock minus ours, seconds; None: not known.
        retention: seconds for which it keeps messages (fileReservedTime); None: not known.
        serves_reads: False: it lets nobody read (brokerPermission).
        barred: groups that it does not let consume (consumeEnable).
    """

    name: str
    error: str | None = None
    requests: int = 0
    seconds: float = 0.0
    clock_offset: float | None = None
    retention: float | None = None
    serves_reads: bool = True
    barred: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Head:
    """The first message of a queue that its group has not finished.

    Attributes:
        offset: its queue offset.
        key: sharding key, or None.
        tags: as sent; "" for none.
        stored_at, born_at: by the broker's and by the producer's clock.
        reconsumed: how often it was sent back to the broker as failed; ordered consumers
            count themselves, see `attempts`.
        size: bytes.
        attempts: how often a member of ours tried it; None: not known.
        fingerprint: of its failure, as a member of ours reports it.
        because: why it is not given up, or not parked, yet, as that member says.
    """

    offset: int
    key: str | None
    tags: str
    stored_at: float
    born_at: float
    reconsumed: int
    size: int
    attempts: int | None = None
    fingerprint: str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """What the state record of an order="key" group says of a queue.

    Attributes:
        unfinished: messages from the recorded low offset to the maximum that are not finished.
        low: the recorded low offset.
        parked: keys that wait in the park topic.
        parked_since: when the oldest parked message was stored; None: not known.
    """

    unfinished: int
    low: int
    parked: tuple[ParkedKey, ...] = ()
    parked_since: float | None = None


@dataclass(frozen=True, slots=True)
class Recreation:
    """A queue's topic was recreated after a group had an offset there. Proven.

    Attributes:
        position: where the group was last known to be in the former one.
        at: when that was found out.
        recorded: its state record is of the former one still: whoever takes the queue finds that
            out, too, and begins at the first message.
        moved: the group's offset was another one since.
        gone_on_at: when the group was first seen to have gone on in the new one; None: not yet.
    """

    position: int
    at: float
    recorded: bool = False
    moved: bool = False
    gone_on_at: float | None = None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A group's dead letters.

    Attributes:
        messages: stored in %DLQ%group, handled by nobody or already: the broker does not know.
        oldest_at: when the oldest was stored; None: not known, or none is there.
        maximum: offset sum; its growth is the inflow.
    """

    messages: int
    oldest_at: float | None
    maximum: int


@dataclass(frozen=True, slots=True)
class GroupReading:
    """What was asked about one group beside its offsets; each part may be older than the scan.

    Attributes:
        group: as the brokers name it.
        read_at: when its members were asked for; 0.0: never.
        connections: members and subscriptions; None: nobody is online. Only with `read_at`.
        errors: of brokers that could not say who is connected, by broker name.
        running: what each member reports of itself, by client id; a member that was not asked, or
            did not answer, is not in it.
        running_at: when the members were asked; 0.0: never.
        delays: by queue, seconds since its first unfinished message was stored, by the broker's
            clock alone. A queue the broker has no answer for is not in it.
        delays_at: when.
        heads: by queue, the first message not finished; only of the worst queues.
        records: by queue; only of groups that keep order by key. A record that could not be read
            is None.
        recreated: by queue; of a topic that was recreated in the last hour, or while the group's
            state record says so.
        dead: dead letters; None: not read.
    """

    group: str
    read_at: float = 0.0
    connections: ConsumerConnections | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, RunningInfo] = field(default_factory=dict)
    running_at: float = 0.0
    delays: Mapping[MessageQueue, float] = field(default_factory=dict)
    delays_at: float = 0.0
    heads: Mapping[MessageQueue, Head] = field(default_factory=dict)
    records: Mapping[MessageQueue, QueueRecord | None] = field(default_factory=dict)
    recreated: Mapping[MessageQueue, Recreation] = field(default_factory=dict)
    dead: DeadLetters | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything one scan read.

    Attributes:
        at: when it began, seconds since the epoch by this process's clock.
        seconds: how long it took.
        cluster: its name; "" if several or none.
        brokers: by name, those that did not answer too.
        topics: by name; of all groups that have offsets, and of their retry topics.
        committed: by (group, topic) the committed offset of each of the topic's queues: NEVER,
            NOT_READ, or the offset. Read before the maxima.
        groups: further details by group; a group without an entry has not been asked about.
        requests: how many of each request code.
    """

    at: float
    seconds: float
    cluster: str
    brokers: Mapping[str, BrokerReading]
    topics: Mapping[str, TopicReading]
    committed: Mapping[tuple[str, str], tuple[int, ...]]
    groups: Mapping[str, GroupReading] = field(default_factory=dict)
    requests: Mapping[int, int] = field(default_factory=dict)
