"""What the members of a group report: which member has which queue, and what it does with it.

From the answers to 307 alone; nobody asks for a lock. Times in them are of the member's clock,
and only compared with each other where that clock and ours disagree.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.monitoring.backlog.history import RateEstimator
from orderly.monitoring.backlog.reading import GroupReading, Head, QueueRecord
from orderly.monitoring.texts import counted
from orderly.namespace import is_retry_topic
from orderly.protocol.heartbeat import ConsumeType, MessageModel, Subscription
from orderly.protocol.members import (
    QueueInfo,
    QueueReport,
    RunningInfo,
    RunningProperty,
    queue_reports,
)

QUIET = 30.0  # seconds: a member pulls, locks or handles something more often than this
FRESH = 5.0  # seconds since the last handler call of a message that is tried again each second
LEAST_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """A member that has a queue, and what it says of it.

    Attributes:
        client: its id.
        info: of the queue.
        now: the member's clock when it was asked.
        report: what a member of ours adds.
    """

    client: str
    info: QueueInfo
    now: float
    report: QueueReport | None

    @property
    def runs(self) -> float | None:
        """Seconds for which a handler has been running; None: none runs, or it is not known."""
        if self.report is not None:
            return self.report.seconds if self.report.why in _HANDLED else None
        began = self.info.last_consume_time
        return self.now - began if self.info.in_hand_count > 0 and began else None

    @property
    def held_up(self) -> bool:
        """Whether the queue is being given up, and nobody gets it before a handler ends."""
        return self.info.dropped and self.runs is not None


_HANDLED = {"HANDLING", "HUNG", "LEAVING", "LOCK_LOST"}


@dataclass(frozen=True, slots=True)
class QueueTrouble:
    """What a member cannot get done.

    Attributes:
        offset: of the message; once the group has committed beyond it, this is over.
        text: what is the matter.
        at_rest: only while the group's committed offset stays at it: so looks a moment between
            two messages, too.
    """

    offset: int
    text: str
    at_rest: bool = False


def claims_of(reading: GroupReading) -> dict[MessageQueue, list[Claim]]:
    """The members that have each queue; one being given up counts while its handler runs."""
    found: dict[MessageQueue, list[Claim]] = {}
    for client, running in sorted(reading.running.items()):
        now = member_clock(running, reading.running_at)
        reports = queue_reports(running)
        for queue, info in running.queues.items():
            claim = Claim(client, info, now, reports.get(queue))
            if not info.dropped or claim.held_up:
                found.setdefault(queue, []).append(claim)
    return found


def given_up(reading: GroupReading) -> set[MessageQueue]:
    """Queues that a member is giving up: it keeps the lock until its handlers have ended."""
    infos = reading.running.values()
    return {queue for info in infos for queue, status in info.queues.items() if status.dropped}


def member_clock(running: RunningInfo, asked_at: float) -> float:
    """What a member's clock said when it was asked.

    That is ours, unless its own times contradict: the newest of them is never later than its now,
    and never much earlier.
    """
    newest = max(
        (
            moment
            for info in running.queues.values()
            for moment in (info.last_pull_time, info.last_consume_time, info.last_lock_time)
        ),
        default=0.0,
    )
    return asked_at if not newest or newest <= asked_at <= newest + QUIET else newest


def owners_claim(claims: Iterable[Claim]) -> Claim:
    """That of the member that has the queue; of several that locked it, who keeps it, then last."""
    return max(
        claims,
        key=lambda claim: (claim.info.locked, not claim.info.dropped, claim.info.last_lock_time),
    )


def clients_of(reading: GroupReading) -> tuple[str, ...] | None:
    """Client ids online, sorted; None: not known."""
    if reading.connections is not None:
        return tuple(sorted({c.client_id for c in reading.connections.connections}))
    return () if reading.read_at and not reading.errors else None


def all_reported(reading: GroupReading) -> bool:
    """Whether every member said which queues it has; those that pop, or ask, have none."""
    clients = clients_of(reading)
    return (
        bool(clients)
        and not reading.errors
        and reading.connections is not None
        and reading.connections.consume_type == ConsumeType.PASSIVELY
        and reading.running.keys() >= set(clients or ())
        and not any(running.pops for running in reading.running.values())
    )


def idle_of(reading: GroupReading) -> tuple[str, ...] | None:
    """Members that said that they have no queue; None: not known of one of them."""
    if not all_reported(reading):
        return None
    busy = {claim.client for claims in claims_of(reading).values() for claim in claims}
    return tuple(client for client in clients_of(reading) or () if client not in busy)


def order_of(reading: GroupReading) -> str:
    """How order is kept: "key", "queue", "none", or "" if nobody says."""
    words = {word for running in reading.running.values() if (word := _order(running.properties))}
    if "key" in words or (reading.records and not words):
        return "key"
    return "queue" if "queue" in words else "none" if words else ""


def _order(properties: Mapping[str, str]) -> str:
    own = properties.get("order", "")
    if own in ("key", "queue"):
        return own
    words = {"true": "queue", "false": "none"}
    return words.get(properties.get(RunningProperty.ORDERLY, "").lower(), "")


def is_ordered(reading: GroupReading) -> bool | None:
    """Whether a member says that it consumes in order; None: no member has said anything."""
    said = [info.properties.get(RunningProperty.ORDERLY) for info in reading.running.values()]
    return "true" in said if said else None


def keeps_order_by_key(reading: GroupReading) -> bool | None:
    """Whether members of ours order by key; None: none of ours has said anything."""
    said = {info.properties.get("order") for info in reading.running.values()} - {None}
    return "key" in said if said else None


def is_broadcasting(reading: GroupReading) -> bool:
    """Whether its members keep their offsets themselves."""
    connections = reading.connections
    return connections is not None and connections.message_model == MessageModel.BROADCASTING


def blocked(claim: Claim, after: float) -> QueueTrouble | None:
    """A handler call that does not return.

    Ours say so; of Java's, the first message is in a listener's hands (ProcessQueue's
    consumingMsgOrderlyTreeMap), and it has been called long ago.
    """
    info, report, runs = claim.info, claim.report, claim.runs
    if runs is None or (runs <= after and (report is None or report.why != "HUNG")):
        return None
    if report is None and info.in_hand_min != info.commit_offset:
        return None
    text = f"{claim.client}: a handler has run for {runs:.0f} s"
    if claim.held_up:
        text += f" with offset {_offset(claim)}; the queue is given up, and stands until it ends"
    return QueueTrouble(_offset(claim), text)


def suspended(claim: Claim) -> QueueTrouble | None:
    """A first message that is tried again and again.

    Ours count the tries; of Java's, nothing is in a listener's hands, the first message is cached,
    and the listener was called just now. (Its rate of failures stays 0 for a minute.)
    """
    info, report = claim.info, claim.report
    if claim.held_up:  # once this try has ended, another member makes the next one
        return None
    if report is not None:
        if report.attempts < LEAST_ATTEMPTS or report.failing_for is None:
            return None
        since = f"{report.attempts} tries in {report.failing_for:.0f} s"
        what = f"{claim.client}: {since}" + (f", {report.reason}" if report.reason else "")
        return QueueTrouble(_offset(claim), what)
    waiting = info.cached_count > 0 and info.cached_min == info.commit_offset
    fresh = claim.now - info.last_consume_time <= FRESH
    if waiting and not info.in_hand_count and fresh:
        what = f"{claim.client}: the first message fails again and again"
        return QueueTrouble(_offset(claim), what, at_rest=True)
    return None


def unpulled(claim: Claim) -> str | None:
    """Why a member of ours cannot pull its queue; None: it can, or a pull failed just now."""
    report = claim.report
    if report is None or report.why not in _NOT_PULLED:
        return None
    if report.seconds is not None and report.seconds < QUIET:
        return None
    since = "" if report.seconds is None else f" (for {report.seconds:.0f} s)"
    why = "" if report.reason is None else f": {report.reason}"
    return f"{claim.client} {_NOT_PULLED[report.why]}{since}{why}"


_NOT_PULLED = {
    "PULL_FAILS": "cannot pull it",
    "TOO_LARGE": "cannot pull its next message",
    "NO_KEY": "has a key function that fails for its next message",
}


def _offset(claim: Claim) -> int:
    reported = None if claim.report is None else claim.report.offset
    return claim.info.commit_offset if reported is None else reported


def subscribed(reading: GroupReading) -> set[str] | None:
    """Topics that any member wants, as brokers and members report; None: not known.

    Consumers that pull by themselves need not announce theirs (Java: DefaultMQPullConsumer, and
    DefaultLitePullConsumer.assign).
    """
    connections = reading.connections
    if connections is None or reading.errors or connections.consume_type == ConsumeType.ACTIVELY:
        return None
    topics = {sub.topic for running in reading.running.values() for sub in running.subscriptions}
    return topics | set(connections.subscriptions)


def subscribed_differently(
    subscriptions: Mapping[str, Iterable[Subscription]],
) -> dict[str, str]:
    """The topics that members of one group subscribe to in different ways, with who does what.

    Args:
        subscriptions: by client id.
    """
    topics = {sub.topic for subs in subscriptions.values() for sub in subs}
    ways: dict[str, dict[str, list[str]]] = {topic: {} for topic in sorted(topics)}
    for client, subs in sorted(subscriptions.items()):
        filters = {sub.topic: sub.filter_text for sub in subs}
        for topic, found in ways.items():
            found.setdefault(filters.get(topic, _NOT_SUBSCRIBED), []).append(client)
    return {
        topic: ", ".join(f"{_cut(way)} ({some(who)})" for way, who in sorted(found.items()))
        for topic, found in ways.items()
        if len(found) > 1
    }


_NOT_SUBSCRIBED = "not subscribed"
_LONGEST = 100  # characters of a filter: members write them


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def some(names: Sequence[str]) -> str:
    """The first three."""
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def findings_of(reading: GroupReading, lonely: int = 0) -> Iterator[str]:
    """What is wrong with the group as a whole, in sentences.

    Args:
        reading: of the group.
        lonely: how many queues nobody has.
    """
    if mixed := mixed_of(reading):
        shown = some([f"{topic}: {ways}" for topic, ways in mixed.items()])
        yield (
            f"its members subscribe to different topics or filters ({shown}): each heartbeat"
            " overwrites the others' and messages go astray; deploy one version everywhere"
        )
    orders = {_order(running.properties) for running in reading.running.values()} - {""}
    if len(orders) > 1:
        yield f"its members keep order in different ways: {', '.join(sorted(orders))}"
    claimed = claims_of(reading)
    for queue, claims in sorted(claimed.items()):
        keep = [claim for claim in claims if not claim.info.dropped]
        if len(keep) > 1 and sum(claim.info.locked for claim in keep) != 1:
            yield f"{queue} is claimed by {', '.join(claim.client for claim in keep)}"
    if idle := idle_of(reading):
        held_up = sum(owners_claim(claims).held_up for claims in claimed.values())
        why = "more than it can use"
        if lonely:
            why = f"{counted(lonely, 'queue')} without a member"
        elif held_up:
            why = f"the former owner of {counted(held_up, 'queue')} still runs a handler"
        yield f"{counted(len(idle), 'member')} without a queue ({some(idle)}): {why}"


def mixed_of(reading: GroupReading) -> dict[str, str]:
    """`subscribed_differently`, of the members asked. Who pulls by itself announces anything."""
    connections = reading.connections
    if connections is not None and connections.consume_type == ConsumeType.ACTIVELY:
        return {}
    return subscribed_differently(
        {client: running.subscriptions for client, running in reading.running.items()}
    )


# --- what is known of a group beside its offsets, as the rules ask for it -------------------------
# One reading is one observation; what must be seen twice (a queue nobody has, one without its
# lock) is remembered from one to the next.


TWO_ROUNDS = 40.0  # seconds: two rebalances, or two renewals of a lock, of 20 s each


@dataclass(slots=True)
class GroupObservation:
    """What is known of a group in one scan. Nothing of it, by default; not changed once made.

    Attributes:
        reading: what was read.
        members, idle, model, order, dead_rate, owner_changes, findings: as in GroupStatus.
        offline: every broker says that nobody is connected.
        topics: subscribed to; None: not known.
        owners: client id by queue.
        orphans: queues that no member has, and since when that has been seen.
        mixed: topics that members subscribe to in different ways, and how.
        astray: queues of those topics that no member has, or is giving up.
        unlocked: why a queue's owner has no lock.
        unowned: of a group that takes locks, queues that no member has, or is giving up; every
            member said what it has.
        blocked, suspended: what its owner cannot get done.
        unpulled: why its owner cannot pull it.
        barred: brokers that do not let the group consume.
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
    mixed: Mapping[str, str] = field(default_factory=dict)
    astray: Collection[MessageQueue] = ()
    unlocked: Mapping[MessageQueue, str] = field(default_factory=dict)
    unowned: Collection[MessageQueue] = ()
    blocked: Mapping[MessageQueue, QueueTrouble] = field(default_factory=dict)
    suspended: Mapping[MessageQueue, QueueTrouble] = field(default_factory=dict)
    unpulled: Mapping[MessageQueue, str] = field(default_factory=dict)
    barred: frozenset[str] = frozenset()

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

    def alike(self, other: GroupObservation) -> bool:
        """Whether the same holds for the group as a whole; for two with `offsets_only`."""
        return (
            other.offsets_only
            and self.offline == other.offline
            and self.barred == other.barred
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
        self._dead: RateEstimator | None = None

    def signs(
        self,
        at: float,
        reading: GroupReading,
        queues: Callable[[], Iterable[MessageQueue]],
        blocked_after: float,
        window: float,
    ) -> GroupObservation:
        """What a reading says in the light of those before it.

        Args:
            at: when the scan began.
            reading: of the group.
            queues: of the topics with offsets of the group, except those nobody is to read.
            blocked_after: see EvaluationSettings.
            window: see EvaluationSettings.
        """
        self._order = order_of(reading) or self._order
        connections = reading.connections
        self._model = connections.message_model if connections else self._model
        signs = GroupObservation(
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
        self._dead = self._dead or RateEstimator(at, values)
        return self._dead.rates(at, values, window)[0][0]

    def _ask_members(
        self,
        signs: GroupObservation,
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
        signs.mixed = mixed_of(reading)
        without = frozenset(lonely) - given_up(reading)
        signs.astray = frozenset(queue for queue in without if queue.topic in signs.mixed)
        owned = {queue: owners_claim(found) for queue, found in claims.items()}
        signs.owners = {queue: claim.client for queue, claim in owned.items()}
        self._count_changes(signs.owners, signs.topics)
        signs.orphans = self._seen_orphans(at, reading, lonely)
        if signs.order in ("key", "queue"):  # the others handle many messages of a queue at once
            signs.unlocked = self._seen_unlocked(reading.running_at, owned)
            signs.unowned = without
            signs.blocked = _present({q: blocked(c, blocked_after) for q, c in owned.items()})
            signs.suspended = _present({q: suspended(c) for q, c in owned.items()})
            signs.unpulled = {q: why for q, c in owned.items() if (why := unpulled(c)) is not None}

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

        Seen from this scan on at the earliest: an earlier report may be older than a queue.
        """
        self._orphans = {queue: self._orphans.get(queue, at) for queue in lonely}
        asked_at = reading.running_at
        return {q: since for q, since in self._orphans.items() if asked_at - since > TWO_ROUNDS}

    def _seen_unlocked(
        self, at: float, owned: Mapping[MessageQueue, Claim]
    ) -> dict[MessageQueue, str]:
        """Java notes when it took a queue, so a lock's age is known; without one, look twice."""
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
    topics = (subscribed(reading) if all_reported(reading) else None) or set()
    return [q for q in queues() if q.topic in topics and q not in claims]


def _present(
    troubles: Mapping[MessageQueue, QueueTrouble | None],
) -> dict[MessageQueue, QueueTrouble]:
    return {queue: trouble for queue, trouble in troubles.items() if trouble is not None}
