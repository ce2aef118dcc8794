"""Looks every hour whether parked messages grow old, and has them appended again in time.

Brokers delete whole files by age (72 hours by default), earlier where their disk is full.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from orderly.client.retention import retention
from orderly.consumer.parking.appending_again import AppendAgain
from orderly.consumer.session import Held, Session
from orderly.errors import OrderlyError, RemotingError

KEEP_INTERVAL = 3600.0  # seconds
FIRST_KEEP = 60.0  # seconds after the start: members may live for less than an hour
RETENTION = 72 * 3600.0  # seconds, where a broker does not say; Java: MessageStoreConfig
_PART = 0.5  # of the retention, after which a message is appended again


def keeps_for(session: Session, held: Held) -> float:
    """For how long the queue's broker keeps messages (seconds); asks it."""
    try:
        return retention(session.client, held.queue)
    except OrderlyError as error:
        held.log.warning("park.retention_unknown", error=str(error))
        return RETENTION


class Keepalive:
    """Of one consumer. One thread calls `round`.

    Args:
        session: the consumer's shared state.
        ready: called when a queue has something to run.
    """

    def __init__(self, session: Session, ready: Callable[[Held], None]) -> None:
        self._session = session
        self._ready = ready
        self._under_way: list[AppendAgain] = []

    def round(self) -> None:
        """Begin with each key whose oldest message is old enough."""
        for late in self._under_way:
            late.tell_if_late()
        self._under_way = []
        retentions: dict[str, float] = {}
        silent: set[str] = set()
        for held in self._session.held():
            broker = held.queue.broker_name
            if held.owned.dropped is not None or not held.owned.parking or broker in silent:
                continue
            if broker not in retentions:
                retentions[broker] = keeps_for(self._session, held)
            if not self._keep(held, time.time() - retentions[broker] * _PART):
                silent.add(broker)

    def _keep(self, held: Held, before: float) -> bool:
        """Begin with the keys of one queue; returns whether its broker answers."""
        with held.lock:
            keys = held.owned.parking.snapshot()
        for parked in keys:
            keeping = AppendAgain(self._session, held, parked, before, self._ready)
            try:
                begun = keeping.begin()
            except OrderlyError as error:
                keeping.tell(error)
                if isinstance(error, RemotingError):
                    return False
                continue
            if begun:
                self._under_way.append(keeping)
        return True
