"""The park queue of a held queue: what is appended to it, and read from it.

Each method blocks for up to a request's time-out and raises OrderlyError when there is no answer,
or one that says no.
"""

from __future__ import annotations

import time
from dataclasses import replace

from orderly.consumer.session import Held, Session, now
from orderly.errors import LockLost, OrderlyError
from orderly.ordering.calls import MaxOffset, ParkedRead, ReadParked
from orderly.ordering.state.topic import park_topic
from orderly.protocol.park_record import PARKED, ParkMessage, park_request
from orderly.protocol.seal import Seal

_LOOKS = 20
_PAUSE = 0.01  # seconds between two looks
_PATIENCE = 3  # reads, each of which waits, before what is stored counts as invisible


class ParkQueue:
    """The park queue of one held queue. Thread-safe.

    Args:
        session: the consumer's shared state.
        held: the queue.
    """

    def __init__(self, session: Session, held: Held) -> None:
        self._session = session
        self._held = held
        self._seal = Seal(session.group, session.client.config.record_secrets)
        self.queue = replace(held.queue, topic=park_topic(session.group, held.queue.topic))

    def append(self, message: ParkMessage) -> int:
        """Store a message; returns its position. It may be stored without an answer.

        Raises:
            LockLost: the source queue is not ours, or results do not count any more.
            OrderlyError: a failure that may pass.
        """
        with self._held.lock:
            ours = self._held.owned.keeps_lock(now()) and self._held.owned.counts
        if not ours:
            raise LockLost(f"{self._held.queue} is no longer ours; nothing is parked")
        newest = None
        if self._seal.signs and PARKED not in message.properties:
            newest = self._session.perform(MaxOffset(self.queue)) - 1
        command = park_request(
            self._session.group, self.queue, message, time.time(), seal=self._seal, newest=newest
        )
        return self._session.client.brokers.send_now(self.queue, command).queue_offset

    def read(self, position: int, tag: str | None = None, *, wait: bool = False) -> ParkedRead:
        """Read one block from a position on."""
        answer: ParkedRead = self._session.perform(ReadParked(self.queue, position, tag, wait))
        return answer

    def await_visible(self, position: int) -> None:
        """Wait until what was stored at a position, and all before it, can be read.

        Raises:
            OrderlyError: it does not become so.
        """
        for _ in range(_LOOKS):  # a broker that is asked to wait may sleep 5 s over what came now
            if self.read(position).next_offset > position:
                return
            time.sleep(_PAUSE)
        for _ in range(_PATIENCE):
            if self.read(position, wait=True).next_offset > position:
                return
        raise OrderlyError(f"what is stored at {position} of {self.queue} cannot be read there")
