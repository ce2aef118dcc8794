"""Steering queues and keys of a running consumer: pause, resume, go on from another offset."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime

from orderly.clock import now
from orderly.config import check_offset, parse_position
from orderly.config.arguments import check_queue, check_queues
from orderly.consumer.puller import Puller
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import LifecycleError
from orderly.model import MessageQueue
from orderly.ordering.owned_queue import Drop


class Control:
    """Thread-safe.

    Args:
        session: the consumer's shared state.
        puller: pulls again what a pause stopped.
        ready: called when a queue may have something to hand out.
    """

    def __init__(
        self,
        session: Session,
        puller: Puller,
        ready: Callable[[HeldQueue], None],
    ) -> None:
        self._session = session
        self._puller = puller
        self._ready = ready

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out and pull nothing more of these; they stay paused over a rebalance."""
        chosen = frozenset(check_queues("queues", queues))
        for held in self._session.set_paused(chosen, paused=True):
            with held.lock:
                held.owned.pause()

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """End the pause of these; the others stay as they are."""
        chosen = frozenset(check_queues("queues", queues))
        for held in self._session.set_paused(chosen, paused=False):
            with held.lock:
                held.owned.resume(now())
            self._ready(held)
            self._puller.start(held)

    def pause_key(self, key: Hashable) -> None:
        """Hand out nothing more of a key; it stays paused over a rebalance."""
        for held in self._session.set_key_paused(key, paused=True):
            with held.lock:
                held.owned.pause_key(key)

    def resume_key(self, key: Hashable) -> None:
        """End that."""
        for held in self._session.set_key_paused(key, paused=False):
            with held.lock:
                held.owned.resume_key(key, now())
            self._ready(held)
            self._puller.reopen(held)

    def seek(self, queue: MessageQueue, position: int | str | datetime) -> int:
        """Go on from another offset, which is committed; see `OrderlyConsumer.seek`."""
        check_queue("queue", queue)
        meant = parse_position(position)
        held = self._session.find(queue)
        if held is None:
            raise LifecycleError(
                f"this consumer does not hold {queue}; `assignment` shows the queues it holds"
            )
        offset = self._offset(queue, meant)
        with held.lock:
            there = held.owned.stands_at(offset)
            moved = there or held.owned.restart_at(offset, Drop.MOVED)
        if not moved:
            raise LifecycleError(
                f"this consumer is releasing {queue}; seek again once it holds the queue"
            )
        if not there:
            held.log.info("offset.set_by_hand", seek_to=offset)
            self._session.attention()
        return offset

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets, on request of a broker that leaves resets to members (220).

        A queue that is being given up takes its offset with it, to its next owner.
        """
        for held in self._session.held():
            offset = offsets.get(held.queue)
            if offset is None:
                continue
            with held.lock:
                moved = held.owned.restart_at(offset, Drop.OFFSET_ILLEGAL)
            if moved:
                held.log.warning("offset.reset_by_broker", reset_to=offset)
                self._session.attention()

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The lowest unfinished offset of each queue held of `topic`."""
        return {h.queue: h.owned.offset for h in self._session.held() if h.queue.topic == topic}

    def _offset(self, queue: MessageQueue, meant: int | str | datetime) -> int:
        brokers = self._session.client.brokers
        if isinstance(meant, datetime):
            return brokers.search_offset(queue, meant.timestamp())
        low, high = brokers.min_offset(queue), brokers.max_offset(queue)
        if isinstance(meant, int):
            check_offset(queue, meant, low, high)
            return meant
        return low if meant == "first" else high
