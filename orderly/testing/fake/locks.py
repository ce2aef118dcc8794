"""The queue locks of one broker (RebalanceLockManager): who owns what, and until when.

Nothing is checked: any client may lock any name. The table is memory, so a restart frees all.
"""

from __future__ import annotations

from collections.abc import Iterable

from orderly.model import MessageQueue

LEASE = 60.0  # seconds from the last lock or renewal


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
            if owner == client_id or now - since > LEASE:
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
        return any(now - since <= LEASE for _, since in self._groups.get(group, {}).values())
