"""What the loops of one consumer share: settings, connections and the queues it holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orderly.client import Client
from orderly.config import ConsumerConfig
from orderly.consumer.perform import performer
from orderly.log import get_logger, where
from orderly.model import MessageQueue
from orderly.ordering.calls import Answer, Dialogue, converse
from orderly.ordering.owned_queue import OwnedQueue
from orderly.protocol.heartbeat import Subscription

# The system's monotonic clock; CLOCK_BOOTTIME also counts the time a machine was suspended, in
# which a lease runs out at the broker.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds on a clock that never goes back."""
    return time.clock_gettime(_CLOCK)


@dataclass(slots=True, eq=False)
class Held:
    """One queue this consumer holds, with its locks.

    Lock order: `Session.locking`, `saving`, `lock`. `lock` guards `owned` and is never held
    during a call to the broker or the handler; `saving` is held during offset commits, so that
    two commits of one queue are never in flight together (the broker could apply them in either
    order).
    """

    owned: OwnedQueue
    subscription: Subscription
    log: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    saving: threading.Lock = field(default_factory=threading.Lock)
    loss_announced: bool = False

    @property
    def queue(self) -> MessageQueue:
        """Which queue."""
        return self.owned.queue


class Session:
    """Shared by the loops of one consumer. Thread-safe.

    Attributes:
        attention: called when a queue needs the rebalancer (dropped and idle, or lost).
        perform: answers one `ordering.calls.Call`; blocks, raises OrderlyError.
        subscriptions: by topic; replaced, never changed in place.
        locking: held from choosing the locks to renew until the answer, and from an unlock until
            the queue is forgotten: a renewal must not take back what was just given up.
    """

    def __init__(
        self, group: str, client: Client, config: ConsumerConfig, consume_from: str | datetime
    ) -> None:
        self.group = group
        self.client = client
        self.config = config
        self.consume_from = consume_from
        self.log = get_logger("orderly.consumer", client_id=client.client_id, **where(group))
        self.attention: Callable[[], None] = lambda: None
        self.subscriptions: dict[str, Subscription] = {}
        self.perform = performer(group, client.brokers)
        self.locking = threading.Lock()
        self._lock = threading.Lock()
        self._held: dict[MessageQueue, Held] = {}

    def converse(self, dialogue: Dialogue[Answer]) -> Answer:
        """Run a dialogue with the brokers; blocks.

        Raises:
            OrderlyError: a call failed and the dialogue did not handle it.
        """
        return converse(dialogue, self.perform)

    def add(self, owned: OwnedQueue, subscription: Subscription) -> Held:
        """Hold a queue whose lock was granted and whose start is known."""
        queue = owned.queue
        held = Held(owned, subscription, self.log.bind(**where(self.group, queue)))
        with self._lock:
            self._held[queue] = held
        return held

    def remove(self, held: Held) -> None:
        """Forget a queue that was released or lost."""
        with self._lock:
            self._held.pop(held.queue, None)

    def held(self) -> list[Held]:
        """A snapshot of the queues held, sorted."""
        with self._lock:
            return sorted(self._held.values(), key=lambda held: held.queue)
