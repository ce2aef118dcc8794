"""What is known about every group's backlog at one moment: judged, for people and programs.

Command line, exporter, page and report show nothing but this. None is "not known" everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict, severity, worst
from orderly.protocol.parked_key import ParkedKey


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue as one group sees it.

    Attributes:
        group, queue: which.
        state: of the first rule that applies. Parked keys are not a state; they have their own
            verdict.
        cause: one sentence that says why; "" if OK.
        minimum, committed, maximum: oldest stored, next to consume, next to be stored.
        span: messages from the committed offset (or the oldest stored) to the end.
        backlog: messages not finished: the span, or less in a group that finishes keys ahead.
        lost: messages deleted before they were consumed.
        head_age: seconds since the oldest of the backlog was stored; 0.0 without a backlog.
        in_rate, out_rate: messages a second stored and committed, over the window.
        drain_eta: seconds until the backlog is gone; inf: never at this rate.
        retention_eta: seconds until the broker deletes the first message that is not consumed.
        owner: client id of the member that has it.
        parked: parked keys, or None.
        parked_age: seconds since the oldest parked message was stored.
        head: the first message not finished, of the worst queues.
    """

    group: str
    queue: MessageQueue
    state: QueueState
    cause: str = ""
    minimum: int | None = None
    committed: int | None = None
    maximum: int | None = None
    span: int | None = None
    backlog: int | None = None
    lost: int = 0
    head_age: float | None = None
    in_rate: float | None = None
    out_rate: float | None = None
    drain_eta: float | None = None
    retention_eta: float | None = None
    owner: str | None = None
    parked: tuple[ParkedKey, ...] | None = None
    parked_age: float | None = None
    head: Head | None = None

    @property
    def parked_keys(self) -> int | None:
        """How many of its keys are parked."""
        return None if self.parked is None else len(self.parked)

    @property
    def parked_messages(self) -> int | None:
        """How many messages of its keys are parked."""
        return None if self.parked is None else sum(key.messages for key in self.parked)

    @property
    def state_verdict(self) -> Verdict:
        """How bad its state is. A queue that was never committed and is empty is in order."""
        empty = self.state is QueueState.NEW and self.backlog == 0
        return Verdict.OK if empty else VERDICTS[self.state]

    @property
    def verdict(self) -> Verdict:
        """How bad it is: its state and its parked keys together."""
        return _with_parked(self.state_verdict, self.parked)


@dataclass(frozen=True, slots=True)
class Sums:
    """Figures of several queues together (of a topic in a group, or of a group).

    Attributes:
        queues: how many there are; the backlog of `unknown` of them could not be measured.
        states: how many queues are in each state; states without a queue are left out.
        backlog: messages in the measured queues; None if no queue was measured. With unknown queues
            it is a lower bound.
        lost: messages deleted before they were consumed.
        head_age: of the oldest queue, seconds.
        in_rate, out_rate: messages a second, added up.
        drain_eta: of the slowest queue, not of the sums.
        retention_eta: of the queue that loses messages first.
        parked_keys, parked_messages, parked_age: of parked keys.
    """

    queues: int
    unknown: int
    states: Mapping[QueueState, int]
    backlog: int | None
    lost: int
    head_age: float | None
    in_rate: float | None
    out_rate: float | None
    drain_eta: float | None
    retention_eta: float | None
    parked_keys: int | None = None
    parked_messages: int | None = None
    parked_age: float | None = None

    @property
    def state(self) -> QueueState:
        """The worst state of a queue: the most severe verdict, then the first rule.

        A queue that was never committed counts unless it is empty: then nothing is unknown.
        """
        new = QueueState.NEW
        return worst(s for s in self.states if s is not new or self.unknown)

    @property
    def state_verdict(self) -> Verdict:
        """How bad the state is."""
        return VERDICTS[self.state]

    @property
    def verdict(self) -> Verdict:
        """How bad the state and the parked keys are together."""
        return _with_parked(self.state_verdict, self.parked_keys)


def _with_parked(verdict: Verdict, parked: object) -> Verdict:
    """Parked keys are worth a warning, which hides nothing worse."""
    return max(verdict, Verdict.WARNING, key=severity) if parked else verdict


@dataclass(frozen=True, slots=True)
class QueueSkew:
    """How unevenly messages flow into a topic's queues; None where there is no inflow.

    Attributes:
        max_over_mean: inflow of the busiest queue over the mean; 1.0 is even.
        top_share: share of the busiest queue, 0 to 1.
        variation: standard deviation over mean.
        gini: 0 is even; near 1 means that one queue gets everything.
        busiest: that queue.
    """

    max_over_mean: float
    top_share: float
    variation: float
    gini: float
    busiest: MessageQueue


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic in one group: sums, and rows that are made on demand.

    A cluster can have a hundred thousand rows, and nobody looks at most of them.

    Attributes:
        group, topic: as the brokers name them.
        sums: over its queues.
        skew: how unevenly messages flow into them; None: nothing flows, or not known.
        make_rows: makes a QueueStatus for each queue, sorted by queue.
    """

    group: str
    topic: str
    sums: Sums
    skew: QueueSkew | None
    make_rows: Callable[[], Iterable[QueueStatus]] = field(repr=False, compare=False)

    def rows(self) -> Iterator[QueueStatus]:
        """Every queue, sorted."""
        yield from self.make_rows()


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group.

    Attributes:
        group: as the brokers name it.
        topics: by name, sorted; its retry topic too.
        sums: over all of them.
        members: client ids online, sorted; None: not known.
        idle: of them, those known to have no queue; None: not known.
        model: "CLUSTERING", "BROADCASTING" or "" (not known).
        order: "queue", "key", "none" or "" (not known).
        dead: dead letters; None: not known.
        dead_rate: dead letters a second, over the window.
        owner_changes: how often a queue changed its owner since the monitor started.
        findings: sentences about the group as a whole: subscriptions that differ, members
            without queues, queues with two owners, offsets of topics it no longer subscribes to.
    """

    group: str
    topics: Mapping[str, TopicStatus]
    sums: Sums
    members: tuple[str, ...] | None = None
    idle: tuple[str, ...] | None = None
    model: str = ""
    order: str = ""
    dead: DeadLetters | None = None
    dead_rate: float | None = None
    owner_changes: int = 0
    findings: tuple[str, ...] = ()

    def rows(self) -> Iterator[QueueStatus]:
        """Every queue of every topic, sorted by topic and queue."""
        for topic in self.topics.values():
            yield from topic.rows()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole cluster at one moment.

    Attributes:
        at: when the scan began, seconds since the epoch.
        scan_seconds: how long it took.
        window: seconds over which rates and states look back; 0.0 after a single scan.
        cluster: its name, or "".
        brokers: by name; one that did not answer says so.
        groups: by name, sorted.
        requests: how many of each request code the scan sent.
    """

    at: float
    scan_seconds: float
    window: float
    cluster: str
    brokers: Mapping[str, BrokerReading]
    groups: Mapping[str, GroupStatus]
    requests: Mapping[int, int] = field(default_factory=dict)

    def rows(self) -> Iterator[QueueStatus]:
        """Every queue of every group."""
        for group in self.groups.values():
            yield from group.rows()
