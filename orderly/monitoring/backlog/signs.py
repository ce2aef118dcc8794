"""What is known of a group beside its offsets, as the rules ask for it, and remembered for it.

One reading is one look; what must be seen twice (a queue nobody has, one without its lock) is
remembered from look to look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.monitoring.backlog.members import (
    Claim,
    Trouble,
    all_told,
    blocked,
    claims_of,
    clients_of,
    findings_of,
    given_up,
    idle_of,
    order_of,
    owner_of,
    subscribed,
    suspended,
)
from orderly.monitoring.backlog.pace import Marks
from orderly.monitoring.backlog.reading import GroupReading, Head, QueueRecord
from orderly.namespace import is_retry_topic
from orderly.protocol.heartbeat import MessageModel

TWO_ROUNDS = 40.0  # seconds: two rebalances, or two renewals of a lock, of 20 s each


@dataclass(slots=True)
class Signs:
    """What is known of a group in one scan. Nothing of it, by default; not changed once made.

    Attributes:
        reading: what was read.
        members, idle, model, order, dead_rate, owner_changes, findings: as in GroupStatus.
        offline: every broker says that nobody is connected.
        topics: subscribed to; None: not known.
        owners: client id by queue.
        orphans: queues that no member has, and since when that has been seen.
        unlocked: why a queue's owner has no lock.
        unowned: of a group that takes locks, queues that no member has, or is giving up; every
            member told what it has.
        blocked, suspended: what its owner cannot get done.
    """

    reading: GroupReading
    members: tuple[str, ...] | None = None
    idle: tuple[str, ...] | None = None
    model: str = ""
    order: str = ""
    dead_rate: float | None = None
    owner_changes: int = 0
    findings: tuple[str, ...] = ()
    offline: bool = False
    topics: set[str] | None = None
    owners: Mapping[MessageQueue, str] = field(default_factory=dict)
    orphans: Mapping[MessageQueue, float] = field(default_factory=dict)
    unlocked: Mapping[MessageQueue, str] = field(default_factory=dict)
    unowned: Collection[MessageQueue] = ()
    blocked: Mapping[MessageQueue, Trouble] = field(default_factory=dict)
    suspended: Mapping[MessageQueue, Trouble] = field(default_factory=dict)

    def wants(self, topic: str) -> bool:
        """Whether the group may consume a topic: False only if that is certain."""
        return self.topics is None or topic in self.topics or is_retry_topic(topic)

    def by_key(self, topic: str) -> bool:
        """Whether the group finishes messages of a topic ahead of the committed offset."""
        return self.order == "key" and not is_retry_topic(topic)

    @property
    def offsets_only(self) -> bool:
        """Whether nothing is known of single queues but their offsets."""
        reading = self.reading
        more = reading.running or reading.heads or reading.records or reading.delays
        return not (more or reading.recreated)

    def alike(self, other: Signs) -> bool:
        """Whether the same holds for the group as a whole; for two with `offsets_only`."""
        return (
            other.offsets_only
            and self.offline == other.offline
            and self.topics == other.topics
            and (self.model, self.order) == (other.model, other.order)
        )

    @property
    def broadcasting(self) -> bool:
        """Whether members keep their offsets themselves."""
        return self.model == MessageModel.BROADCASTING

    @property
    def heads(self) -> Mapping[MessageQueue, Head]:
        """First messages that were looked at."""
        return self.reading.heads

    @property
    def records(self) -> Mapping[MessageQueue, QueueRecord | None]:
        """State records, of a group that keeps order by key."""
        return self.reading.records


class GroupMemory:
    """What is remembered of one group. Not thread-safe."""

    def __init__(self) -> None:
        self.absent = 0  # scans in a row without it
        self._model = self._order = ""
        self._owners: dict[MessageQueue, str] = {}
        self._owner_changes = 0
        self._orphans: dict[MessageQueue, float] = {}
        self._unlocked: dict[MessageQueue, float] = {}
        self._dead: Marks | None = None

    def signs(
        self,
        at: float,
        reading: GroupReading,
        queues: Callable[[], Iterable[MessageQueue]],
        blocked_after: float,
        window: float,
    ) -> Signs:
        """What a reading says in the light of those before it.

        Args:
            at: when the scan began.
            reading: of the group.
            queues: of the topics with offsets of the group, except those nobody is to read.
            blocked_after: see Settings.
            window: see Settings.
        """
        self._order = order_of(reading) or self._order
        connections = reading.connections
        self._model = connections.message_model if connections else self._model
        signs = Signs(
            reading, clients_of(reading), model=self._model, order=self._order,
            offline=clients_of(reading) == (), topics=subscribed(reading),
            dead_rate=self._dead_rate(at, reading, window),
        )  # fmt: skip
        if reading.running and connections is not None:
            self._ask_members(signs, at, queues, blocked_after)
        else:
            self._orphans = {}
        signs.owner_changes = self._owner_changes
        return signs

    def _dead_rate(self, at: float, reading: GroupReading, window: float) -> float | None:
        if reading.dead is None:
            return None
        values = (reading.dead.maximum,)
        self._dead = self._dead or Marks(at, values)
        return self._dead.rates(at, values, window)[0][0]

    def _ask_members(
        self,
        signs: Signs,
        at: float,
        queues: Callable[[], Iterable[MessageQueue]],
        blocked_after: float,
    ) -> None:
        reading = signs.reading
        claims = claims_of(reading)
        lonely = _lonely(reading, queues, claims)
        signs.idle = idle_of(reading)
        nobodys = sum(not is_retry_topic(queue.topic) for queue in lonely)
        signs.findings = tuple(findings_of(reading, nobodys))
        signs.owners = {queue: owner_of(found) for queue, found in claims.items()}
        self._count_changes(signs.owners, signs.topics)
        signs.orphans = self._seen_orphans(at, reading, lonely)
        if signs.order in ("key", "queue"):  # the others handle many messages of a queue at once
            owned = {queue: _owners_claim(found) for queue, found in claims.items()}
            signs.unlocked = self._seen_unlocked(reading.running_at, owned)
            signs.unowned = frozenset(lonely) - given_up(reading)
            signs.blocked = _present({q: blocked(c, blocked_after) for q, c in owned.items()})
            signs.suspended = _present({q: suspended(c) for q, c in owned.items()})

    def _count_changes(
        self, owners: Mapping[MessageQueue, str], topics: Container[str] | None
    ) -> None:
        """A queue of the group's topics keeps its last owner while nobody has it."""
        if topics is not None:
            self._owners = {q: owner for q, owner in self._owners.items() if q.topic in topics}
        for queue, owner in owners.items():
            self._owner_changes += self._owners.get(queue, owner) != owner
            self._owners[queue] = owner

    def _seen_orphans(
        self,
        at: float,
        reading: GroupReading,
        lonely: Iterable[MessageQueue],
    ) -> dict[MessageQueue, float]:
        """Queues nobody has, in look after look: one in which somebody keeps silent ends that.

        Seen from this scan on at the earliest: what members told before may be older than a queue.
        """
        self._orphans = {queue: self._orphans.get(queue, at) for queue in lonely}
        told = reading.running_at
        return {q: since for q, since in self._orphans.items() if told - since > TWO_ROUNDS}

    def _seen_unlocked(
        self, at: float, owned: Mapping[MessageQueue, Claim]
    ) -> dict[MessageQueue, str]:
        """Java notes when it took a queue, so a lock's age tells; without one, look twice."""
        loose = [queue for queue, claim in owned.items() if not claim.info.locked]
        self._unlocked = {queue: self._unlocked.get(queue, at) for queue in loose}
        found = {}
        for queue, claim in owned.items():
            locked_at = claim.info.last_lock_time
            age = claim.now - locked_at if locked_at else at - self._unlocked.get(queue, at)
            if age > TWO_ROUNDS:
                found[queue] = f"{claim.client} has had no lock of it for {age:.0f} s"
        return found


def _lonely(
    reading: GroupReading,
    queues: Callable[[], Iterable[MessageQueue]],
    claims: Mapping[MessageQueue, object],
) -> list[MessageQueue]:
    """The queues that nobody has; none if that is not certain, since a member keeps silent."""
    topics = (subscribed(reading) if all_told(reading) else None) or set()
    return [q for q in queues() if q.topic in topics and q not in claims]


def _owners_claim(claims: list[Claim]) -> Claim:
    owner = owner_of(claims)
    return next(claim for claim in claims if claim.client == owner)


def _present(troubles: Mapping[MessageQueue, Trouble | None]) -> dict[MessageQueue, Trouble]:
    return {queue: trouble for queue, trouble in troubles.items() if trouble is not None}
