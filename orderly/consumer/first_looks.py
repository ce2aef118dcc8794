"""What this member saw of each topic before it joined: whether its group is new there.

Looked at once for each topic, before the heartbeat that makes us a member in it (`new_group` says
why). If that fails, it is looked at again when a queue without an offset is to be taken; until it
is known, such a queue is not taken. Nobody guesses: the broker that is silent may be the one that
knows the group.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable

from orderly.client.state_topics import StateTopics
from orderly.clock import now
from orderly.consumer.session import Session
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import converse
from orderly.ordering.new_group import NewGroup, find_new_group
from orderly.ordering.start import depends_on_group

_LOOK_AGAIN = 2.0  # seconds: a broker that is silent holds up a look for its time-out


class FirstLooks:
    """Thread-safe. A look blocks, for all who ask.

    Args:
        session: the consumer's shared state.
        state_topics: where what is finished is on record; None: order by queue.
    """

    def __init__(self, session: Session, state_topics: StateTopics | None) -> None:
        self._session = session
        self._state_topics = state_topics
        self._lock = threading.Lock()
        self._seen: dict[str, NewGroup | None] = {}
        self._failed: dict[str, tuple[float, OrderlyError]] = {}

    def look(self, topic: str) -> None:
        """Look at a topic that is about to be joined, where it matters what is seen.

        A failure is told to who takes a queue that has no offset.
        """
        if depends_on_group(self._session.consume_from, topic):
            with contextlib.suppress(OrderlyError):
                self._see(topic)

    def new_group(self, queue: MessageQueue) -> NewGroup | None:
        """What was seen of the queue's topic; None: the group is known there.

        Raises:
            OrderlyError: that cannot be known now: the queue must not be taken.
        """
        return self._see(queue.topic, nearest=queue.broker_name)

    def forget(self, topics: Iterable[str]) -> None:
        """Forget topics that are no longer subscribed: they may be subscribed again."""
        for topic in topics:
            with self._lock:
                self._seen.pop(topic, None)
                self._failed.pop(topic, None)

    def _see(self, topic: str, nearest: str = "") -> NewGroup | None:
        with self._lock:
            if topic in self._seen:
                return self._seen[topic]
            at, failure = self._failed.get(topic, (0.0, None))
            if failure is not None and now() - at < _LOOK_AGAIN:
                raise failure
            try:
                found = self._asked(topic, nearest)
            except OrderlyError as error:
                self._failed[topic] = now(), error
                raise
            self._seen[topic] = found
            return found

    def _asked(self, topic: str, nearest: str) -> NewGroup | None:
        session, topics = self._session, self._state_topics
        by_key = topics is not None and session.by_key(topic)
        state_queue_of = topics.queue_of if topics is not None and by_key else None
        queues = [
            # Also those that may not be read: a group may have offsets there.
            MessageQueue(topic, data.broker_name, number)
            for data in session.client.routes.get(topic).queues
            for number in range(max(data.read_queues, data.write_queues))
        ]
        return converse(find_new_group(queues, state_queue_of, nearest=nearest), session.perform)
