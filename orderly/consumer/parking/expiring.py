"""Looks every ten minutes whether unfinished messages grow so old that the broker deletes them.

At half of the broker's retention that is told. At three quarters a message that fails once more is
kept elsewhere: parked with its key, or stored as a dead letter (`ConsumerConfig.on_expiring`).
Brokers delete earlier where their disk is full, and nobody is warned of that.
"""

from __future__ import annotations

import time

from orderly.consumer.parking.keeping import keeps_for
from orderly.consumer.session import Held, Session, now
from orderly.log import key_text
from orderly.ordering.explain import explain

LOOK_INTERVAL = 600.0  # seconds
LEAST_AGE = 1800.0  # seconds: half of an hour, which is the least that a broker is told to keep


class Expiring:
    """Of one consumer. One thread calls `round`.

    Args:
        session: the consumer's shared state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def round(self) -> None:
        """Look at each queue held; a broker is asked only about messages that are old."""
        retentions: dict[str, float] = {}
        for held in self._session.held():
            broker = held.queue.broker_name
            if held.owned.dropped is not None:
                continue
            if broker not in retentions and self._is_old(held):
                retentions[broker] = keeps_for(self._session, held)
            self._look(held, retentions.get(broker, float("inf")))

    def _is_old(self, held: Held) -> bool:
        with held.lock:
            lane = held.owned.messages.lowest_lane
            oldest = None if lane is None else lane.oldest
        return oldest is not None and time.time() - oldest >= LEAST_AGE

    def _look(self, held: Held, retention: float) -> None:
        policy = self._session.config.on_expiring
        act = held.memory is not None if policy == "park" else policy == "dead_letter"
        with held.lock:
            expires = held.owned.look_at_ages(now(), time.time(), retention, act=act)
            explained = explain(held.owned, now())
        if expires and explained.expires_in is not None:
            held.log.error(
                "message.expiring",
                offset=explained.offset,
                key=key_text(explained.key),
                attempt=explained.attempt,
                seconds=round(explained.expires_in),
            )
