"""A consumer's life: created, running, closing, closed (or failed), and what each step does."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING
from weakref import WeakSet

from orderly.client.peer_requests import GroupAnswers
from orderly.consumer.loops import Loops
from orderly.consumer.owning.local_offsets import LocalOffsets
from orderly.consumer.owning.state_topics import StateTopics
from orderly.consumer.preflight import check_start
from orderly.consumer.session import Session
from orderly.consumer.telling.places import longest_handler
from orderly.errors import ConfigError, LifecycleError
from orderly.namespace import RETRY_PREFIX
from orderly.protocol.heartbeat import Subscription
from orderly.signals import LOOK, heard

if TYPE_CHECKING:
    from orderly.processes.handler import ProcessHandler

_AFTER_KILL = 5.0  # seconds to save and unlock once the handlers are dead


class State(StrEnum):
    """Where a consumer is in its life."""

    CREATED = "created"
    RUNNING = "running"
    CLOSING = "closing"
    FAILED = "failed"
    CLOSED = "closed"


class Life:
    """Thread-safe.

    Args:
        session: the consumer's shared state.
        loops: its parts.
        state_topics: with order by key; else None.
        offsets: of a broadcasting member; else None.
        owned: closed at the end, in this order: what belongs to this consumer alone.
        processes: that run the handler; None: it runs in this one, and nothing can end it.

    Attributes:
        state: where it is.
        lock: held over each step but the waiting for handlers.
    """

    def __init__(
        self,
        session: Session,
        loops: Loops,
        *,
        state_topics: StateTopics | None,
        offsets: LocalOffsets | None,
        owned: tuple[Callable[[], None], ...],
        processes: ProcessHandler | None,
    ) -> None:
        self.state = State.CREATED
        self.lock = threading.RLock()
        self._session = session
        self._loops = loops
        self._state_topics = state_topics
        self._offsets = offsets
        self._owned = owned
        self._processes = processes
        self._registered = False
        self._closed = threading.Event()

    def require(self, *states: State) -> None:
        """Raise LifecycleError unless the consumer is in one of these states."""
        if self.state not in states:
            raise LifecycleError(
                f"the consumer of group {self._session.group!r} is {self.state}; make a new one"
            )

    # --- start ---------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Join the group and begin; nothing is left running after an error.

        Args:
            loop: where async handlers shall run; None: on one of our own.
        """
        with self.lock:
            self.require(State.CREATED)
            if self._processes is not None:
                self._processes.check_place()
            if not self._session.subscriptions:
                raise ConfigError("subscribe to a topic before start: there is nothing to consume")
            if loop is not None:
                self._loops.use(loop)
            with _STARTED_LOCK:
                _STARTED.add(self)
            try:
                self._join()
            except BaseException:
                self.state = State.FAILED
                self._stop_parts()
                raise
            self.state = State.RUNNING

    def _join(self) -> None:
        session, client, config = self._session, self._session.client, self._session.config
        client.start()
        check_start(client, session.group, session.subscriptions.values(), config, session.log)
        for topic in session.subscriptions:
            self.ensure_state(topic)
        if self._offsets is not None:
            self._offsets.open()
        else:
            retry_topic = RETRY_PREFIX + session.group
            session.subscriptions = {
                **session.subscriptions,
                retry_topic: Subscription.from_expression(retry_topic, "*", session.version),
            }
        client.heartbeat.register_consumer(
            session.group,
            subscriptions=session.announced,
            on_members_changed=self._loops.rounds.wake,
            consume_from=config.consume_from,
            broadcasting=config.broadcasting,
            answers=self._answers(),
        )
        self._registered = True
        refusal = client.heartbeat.heartbeat_now()
        if refusal is not None:  # no broker takes us for a member: wrong key, or not permitted
            raise refusal
        self._loops.start()
        session.log.info("consumer.started", topics=sorted(session.subscriptions))

    def ensure_state(self, topic: str) -> None:
        """See that there is a place to remember what is finished ahead in `topic`."""
        if self._state_topics is not None and self._session.by_key(topic):
            self._state_topics.ensure(topic)

    def _answers(self) -> GroupAnswers:
        loops = self._loops
        return GroupAnswers(
            running_info=loops.insight.running_info,
            reset_offsets=loops.control.reset,
            offsets=loops.control.offsets,
            consume_directly=loops.direct.consume,
        )

    # --- end -----------------------------------------------------------------------------------

    def refuse_handlers(self) -> None:
        """Raise LifecycleError if it is a handler that wants to close its own consumer."""
        if self._loops.engine.handling:
            raise LifecycleError(
                "to close the consumer would be to wait for the handler that asked for it:"
                " let another thread or task do that"
            )

    def close(self) -> None:
        """Stop cleanly; see `OrderlyConsumer.close`."""
        if self._session.client.connections.foreign:  # a forked child: nothing here is its own
            return
        self.refuse_handlers()
        if self._loops.engine.inside:
            raise LifecycleError(
                "close() would wait for handlers of this thread's event loop: await aclose()"
            )
        with self.lock:
            if self.state in (State.CLOSING, State.CLOSED):
                return
            running = self.state is State.RUNNING
            self.state = State.CLOSING
        # Not under the lock: a hook that calls the consumer meanwhile must not wait for ever.
        if not running or self._wound_down():
            self._stop_parts()
        else:
            self._outlive()
        self._session.outlook = {}  # what nobody looks after any more is not explained either
        self.state = State.CLOSED
        if running:
            self._session.log.info("consumer.closed")
        self._closed.set()

    def _wound_down(self) -> bool:
        """Release every queue; worker processes that run at the deadline are killed for it."""
        if self._loops.wind_down(self._session.config.close_timeout):
            return True
        if self._processes is None:
            return False
        self._processes.kill()
        return self._loops.wind_down(_AFTER_KILL)

    def wait(self, timeout: float | None, *, signals: bool) -> bool:
        """Block until it is closed; see `OrderlyConsumer.wait`."""
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        with heard(signals) as told:
            while not self._closed.wait(max(0.0, min(LOOK, end - time.monotonic()))):
                if told() or time.monotonic() >= end:
                    break
            self.heed(told())
        self.heed(told())  # it came while the handlers were put back
        return self._closed.is_set()

    def heed(self, told: signal.Signals | None) -> None:
        """Close this and every other consumer that was started in the process, if told to.

        At the same time, for each may need its close_timeout.
        """
        if told is None:
            return
        with _STARTED_LOCK:
            lives = {self, *_STARTED}
        name = f"orderly-closing-on-{told.name}"
        closing = [
            threading.Thread(target=life.end, args=(told,), name=name, daemon=True)
            for life in lives
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def end(self, told: signal.Signals) -> None:
        """Close; while another thread does so already, wait for it."""
        if self._session.client.connections.foreign:
            return
        if self.state is State.RUNNING:
            self._session.log.info("consumer.told_to_end", signal=told.name)
        self.close()
        self._closed.wait()

    def _outlive(self) -> None:
        """Leave the group, and keep the locks of what still runs until it has ended."""
        for held in self._session.held():
            held.log.error(
                "queue.left_locked",
                **longest_handler(held),
            )
        self._leave()
        name = f"orderly-closing-{self._session.group}"
        threading.Thread(target=self._end_later, name=name, daemon=True).start()

    def _leave(self) -> None:
        if self._registered:  # not the twin's membership in a shared client
            self._session.client.heartbeat.unregister_consumer(self._session.group)
            self._registered = False

    def _end_later(self) -> None:
        self._loops.wait_released()
        self._stop_parts()

    def _stop_parts(self) -> None:
        self._loops.stop()
        self._leave()
        for close in self._owned:
            close()


_STARTED: WeakSet[Life] = WeakSet()
_STARTED_LOCK = threading.Lock()
