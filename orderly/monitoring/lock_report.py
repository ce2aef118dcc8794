"""What is wrong with the locks of a group, as its members report them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orderly.config.consumer import BROKER_LEASE
from orderly.monitoring.backlog.members import clients_of, is_broadcasting, is_ordered
from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.monitoring.backlog.signs import TWO_ROUNDS
from orderly.monitoring.backlog.states import Verdict, severity
from orderly.monitoring.locks import QueueLock, locks, silent


@dataclass(frozen=True, slots=True)
class JudgedLock:
    """A queue's lock, and what is wrong with it.

    Attributes:
        lock: as members report it.
        verdict: how bad that is.
        why: the same in words; "" if nothing is wrong.
        free_within: seconds until the broker frees the lock, at the latest, unless it is renewed:
            by a client that nobody can ask, as a closed consumer whose handler still runs. None:
            it is renewed as it should be, or who has it gives it back itself.
    """

    lock: QueueLock
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
        takes_locks: whether it consumes in order, and so takes locks; None: no member told.
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


def _judged(lock: QueueLock, reading: GroupReading, takes_locks: bool | None) -> JudgedLock:
    if takes_locks is False:
        return JudgedLock(lock, Verdict.OK, "")
    within = _free_within(lock)
    if lock.locked is None:
        why = f"a member that may have it did not answer; if it died: {_free(BROKER_LEASE)}"
        return JudgedLock(lock, Verdict.UNKNOWN, why, within)
    why = _trouble(lock, reading)
    verdict = Verdict.WARNING if why else Verdict.OK
    return JudgedLock(lock, verdict, why, within if why else None)


def _free_within(lock: QueueLock) -> float | None:
    if lock.owner is None:
        return BROKER_LEASE  # who had it was alive a moment ago, as far as anybody can know
    if lock.locked and not lock.dropped and lock.lock_age is not None:
        return max(0.0, BROKER_LEASE - lock.lock_age)
    return None


def _free(within: float) -> str:
    return f"free {within:.0f} s from now at the latest"


_LEFT = (
    "a member that left or died may have its lock:"
    f" {_free(BROKER_LEASE)}, or when a handler that it still runs ends"
)


def _trouble(lock: QueueLock, reading: GroupReading) -> str:
    if lock.owner is None:
        return _nobody(lock, reading)
    if len(lock.claimants) > 1:
        return "several members have it: a hand-over, or they allocate in different ways"
    if lock.dropped:
        times = f"; {lock.failed_unlocks} times in vain" if lock.failed_unlocks else ""
        return f"its owner is giving it up{times}"
    if not lock.locked:
        return "its owner does not have the lock, and does not consume: another client holds it"
    if lock.lock_age is not None and lock.lock_age > TWO_ROUNDS:
        left = max(0.0, BROKER_LEASE - lock.lock_age)
        return f"the lock was not renewed for {lock.lock_age:.0f} s; if that stays: {_free(left)}"
    return ""


def _nobody(lock: QueueLock, reading: GroupReading) -> str:
    connections = reading.connections
    if connections is None:
        return f"nobody is online; {_LEFT}"
    if connections.subscriptions and lock.queue.topic not in connections.subscriptions:
        return ""  # offsets of a topic that is no longer consumed
    return f"no member claims it; {_LEFT}; or it is allocated to nobody"
