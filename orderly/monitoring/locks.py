"""Who holds which queue, as the members themselves report it, and what is wrong with that. Pure.

No broker reports its locks, and asking for a lock takes it. So this is what clients say
of themselves: of a member that did not answer, or runs behind a proxy, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orderly.config.consumer import BROKER_LEASE
from orderly.model import MessageQueue
from orderly.monitoring.backlog.members import TWO_ROUNDS, clients_of, is_broadcasting, is_ordered
from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.monitoring.backlog.states import Verdict, severity
from orderly.namespace import is_retry_topic
from orderly.protocol.members import QueueInfo


@dataclass(frozen=True, slots=True)
class ReportedLock:
    """One queue of a group.

    Attributes:
        queue: which.
        owner: client id of the member that has the broker's lock, else of the one that has the
            queue without it; None: nobody has it, or it is not known.
        locked: whether the owner has the broker's lock; None: not known, since a member that may
            have it did not answer.
        lock_age: seconds since it was last obtained or renewed (every 20 s, as a rule), by the
            member's clock against ours; None: never, or there is no owner.
        claimants: all members that have the queue, sorted: more than one is a hand-over, or wrong.
        failed_unlocks: how often the owner failed to give the lock back.
        dropped: the owner is giving the queue up.
    """

    queue: MessageQueue
    owner: str | None
    locked: bool | None
    lock_age: float | None
    claimants: tuple[str, ...]
    failed_unlocks: int
    dropped: bool


def locks(scan: Scan, group: str) -> tuple[ReportedLock, ...]:
    """One entry a queue of the group's topics, sorted; of a group not asked about all unknown.

    Args:
        scan: with details about the group.
        group: as the brokers name it.
    """
    reading = scan.groups.get(group) or GroupReading(group)
    queues = {queue for name, topic in scan.committed if name == group for queue in
              scan.topics[topic].queues if not is_retry_topic(topic)}  # fmt: skip
    queues |= {queue for info in reading.running.values() for queue in info.queues}
    return tuple(_lock(queue, reading) for queue in sorted(queues))


def silent(reading: GroupReading) -> tuple[str, ...]:
    """The members online that did not say what they have, sorted."""
    return tuple(name for name in clients_of(reading) or () if name not in reading.running)


def _lock(queue: MessageQueue, reading: GroupReading) -> ReportedLock:
    claims = {
        name: info.queues[queue] for name, info in reading.running.items() if queue in info.queues
    }
    claimants = tuple(sorted(claims))
    owner = max(claimants, key=lambda name: _claim(claims[name]), default=None)
    if owner is None:
        return ReportedLock(
            queue, None, None if _may_be_had(reading) else False, None, (), 0, False
        )
    held = claims[owner]
    age = reading.running_at - held.last_lock_time if held.last_lock_time else None
    return ReportedLock(
        queue,
        owner,
        held.locked,
        None if age is None else max(0.0, age),
        claimants,
        held.try_unlock_times,
        held.dropped,
    )


def _claim(held: QueueInfo) -> tuple[bool, bool, float]:
    return held.locked, not held.dropped, held.last_lock_time


def _may_be_had(reading: GroupReading) -> bool:
    """Whether a member that did not answer can have it."""
    return reading.read_at == 0.0 or bool(reading.errors) or bool(silent(reading))


# --- what is wrong with the locks of a group ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgedLock:
    """A queue's lock, and what is wrong with it.

    Attributes:
        lock: as members report it.
        verdict: how bad that is.
        why: the same in words; "" if nothing is wrong.
        free_within: seconds until the broker frees the lock, at the latest, unless it is renewed:
            by a client that nobody can ask, as a closed consumer whose handler still runs. None:
            it is renewed as it should be, or its owner gives it back. Where nobody is online
            nothing is wrong, and yet who died a moment ago can have left its lock.
    """

    lock: ReportedLock
    verdict: Verdict
    why: str
    free_within: float | None = None


@dataclass(frozen=True, slots=True)
class LockReport:
    """The locks of one group.

    Attributes:
        at: when it was asked, seconds since the epoch.
        group: as the brokers name it.
        locks: of each queue, sorted.
        members: client ids online, sorted; None: not known.
        idle: of them, those without a queue.
        silent: of them, those that did not say what they have: dead ones whose connection is not
            closed yet, ones that hang, and gRPC clients.
        takes_locks: whether it consumes in order, and so takes locks; None: no member said so.
        errors: of brokers that did not answer, by name.
    """

    at: float
    group: str
    locks: tuple[JudgedLock, ...]
    members: tuple[str, ...] | None
    idle: tuple[str, ...]
    silent: tuple[str, ...]
    takes_locks: bool | None
    errors: Mapping[str, str]

    @property
    def verdict(self) -> Verdict:
        """OK; WARNING: a queue is not locked, or by two; UNKNOWN: something could not be known."""
        if self.errors or not self.locks:
            return Verdict.UNKNOWN
        return max((each.verdict for each in self.locks), key=severity)


def lock_report(scan: Scan, group: str) -> LockReport:
    """Judge the locks of a group.

    Args:
        scan: with details about the group.
        group: as the brokers name it.
    """
    reading = scan.groups.get(group) or GroupReading(group)
    errors = {name: broker.error for name, broker in scan.brokers.items() if broker.error}
    takes_locks = False if is_broadcasting(reading) else is_ordered(reading)
    return LockReport(
        at=scan.at,
        group=group,
        locks=tuple(_judged(lock, reading, takes_locks) for lock in locks(scan, group)),
        members=clients_of(reading),
        idle=tuple(sorted(name for name, info in reading.running.items() if not info.queues)),
        silent=silent(reading),
        takes_locks=takes_locks,
        errors=errors | dict(reading.errors),
    )


def _judged(lock: ReportedLock, reading: GroupReading, takes_locks: bool | None) -> JudgedLock:
    if takes_locks is False:
        return JudgedLock(lock, Verdict.OK, "")
    within = _free_within(lock)
    if lock.locked is None:
        why = f"a member that can have it did not answer; if that died: {_free(BROKER_LEASE)}"
        return JudgedLock(lock, Verdict.UNKNOWN, why, within)
    if lock.owner is None and reading.connections is None:  # nobody is online, nobody waits for it
        return JudgedLock(lock, Verdict.OK, "", within)
    why = _trouble(lock, reading)
    verdict = Verdict.WARNING if why else Verdict.OK
    return JudgedLock(lock, verdict, why, within if why else None)


def _free_within(lock: ReportedLock) -> float | None:
    if lock.owner is None:
        return BROKER_LEASE  # who had it was alive a moment ago, as far as anybody can know
    if lock.locked and not lock.dropped and lock.lock_age is not None:
        return max(0.0, BROKER_LEASE - lock.lock_age)
    return None


def _free(within: float) -> str:
    return f"free within {within:.0f} s"


LEFT = (
    "a member that left or died can still hold its lock:"
    f" {_free(BROKER_LEASE)}, or when its running handler ends"
)


def _trouble(lock: ReportedLock, reading: GroupReading) -> str:
    if lock.owner is None:
        return _nobody(lock, reading)
    if len(lock.claimants) > 1:
        return "several members have it: a hand-over, or they allocate in different ways"
    if lock.dropped:
        times = f"; {lock.failed_unlocks} times without success" if lock.failed_unlocks else ""
        return f"its owner is giving it up{times}"
    if not lock.locked:
        return "its owner does not have the lock, and does not consume: another client holds it"
    if lock.lock_age is not None and lock.lock_age > TWO_ROUNDS:
        left = max(0.0, BROKER_LEASE - lock.lock_age)
        return f"the lock was not renewed for {lock.lock_age:.0f} s; if it is not: {_free(left)}"
    return ""


def _nobody(lock: ReportedLock, reading: GroupReading) -> str:
    connections = reading.connections
    assert connections is not None, "where nobody is online nothing is wrong"
    if connections.subscriptions and lock.queue.topic not in connections.subscriptions:
        return ""  # offsets of a topic that is no longer consumed
    return f"no member claims it: it is allocated to no member, or {LEFT}"
