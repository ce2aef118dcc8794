"""Who holds which queue, as the members themselves report it. Pure.

No broker tells who has its locks, and asking for a lock takes it. So this is what clients say of
themselves: of a member that did not answer, or runs behind a proxy, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.model import MessageQueue
from orderly.monitoring.backlog.members import clients_of
from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.namespace import is_retry_topic
from orderly.protocol.running_info import QueueInfo


@dataclass(frozen=True, slots=True)
class QueueLock:
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
        failed_unlocks: how often the owner tried in vain to give the lock back.
        dropped: the owner is giving the queue up.
    """

    queue: MessageQueue
    owner: str | None
    locked: bool | None
    lock_age: float | None
    claimants: tuple[str, ...]
    failed_unlocks: int
    dropped: bool


def locks(scan: Scan, group: str) -> tuple[QueueLock, ...]:
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


def _lock(queue: MessageQueue, reading: GroupReading) -> QueueLock:
    claims = {
        name: info.queues[queue] for name, info in reading.running.items() if queue in info.queues
    }
    claimants = tuple(sorted(claims))
    owner = max(claimants, key=lambda name: _claim(claims[name]), default=None)
    if owner is None:
        return QueueLock(queue, None, None if _may_be_had(reading) else False, None, (), 0, False)
    held = claims[owner]
    age = reading.running_at - held.last_lock_time if held.last_lock_time else None
    return QueueLock(
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
    """Whether somebody who did not answer may have it."""
    return reading.read_at == 0.0 or bool(reading.errors) or bool(silent(reading))
