"""A running consumer: its parts put together, and its lifecycle from start to close.

`ConsumerRuntime` says what feeds what, and what runs how often. `Lifecycle` says in which state
the consumer is (created, running, closing, closed or failed), and what each step does.
"""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING
from weakref import WeakSet

from orderly.at_exit import FOR_HANDLERS, PATIENCE, Ending
from orderly.client.background import Periodic
from orderly.client.peer_requests import GroupAnswers
from orderly.client.preflight import (
    BehindProxy,
    Found,
    NotOrdered,
    NotReported,
    StartRefused,
    SubscriptionsDiffer,
    check_start,
)
from orderly.client.state_topics import StateTopics
from orderly.clock import now
from orderly.config import is_async
from orderly.consumer.control import Control
from orderly.consumer.coroutines import Coroutines
from orderly.consumer.direct_consume import DirectConsumption
from orderly.consumer.engine_watch import EngineWatch
from orderly.consumer.group_order_check import GroupOrderCheck
from orderly.consumer.handler_caller import Caller
from orderly.consumer.hung_calls import HangWatch, RunningCalls, interval
from orderly.consumer.introspection import ConsumerInspector, SpanEnds
from orderly.consumer.local_offsets import LocalOffsets
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.park_commands import COMMANDS_INTERVAL, ParkCommands
from orderly.consumer.puller import Puller
from orderly.consumer.rebalancer import Rebalancer, Releaser, Taker
from orderly.consumer.renewal import LockKeeper
from orderly.consumer.retention import (
    AGES_INTERVAL,
    FIRST_KEEP,
    KEEP_INTERVAL,
    Expiring,
    RetentionRefresh,
)
from orderly.consumer.session import LOOKS, HeldQueue, Session, longest_handler
from orderly.consumer.workers import Worker
from orderly.errors import ConfigError, LifecycleError, NoPermission
from orderly.interruptions import Latch, shielded
from orderly.namespace import RETRY_PREFIX
from orderly.ordering.allocation import Allocation
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.owned_queue import Drop
from orderly.protocol.heartbeat import Subscription
from orderly.signals import LOOK, heard

if TYPE_CHECKING:
    from orderly.processes.handler import ProcessHandler


_RELEASE_RETRY = 0.5  # seconds between attempts to hand queues on while closing
BROKERS_PATIENCE = 5.0  # seconds of a close in which no handler runs and no broker takes a queue
_LAST_SAVES = 1.0  # seconds after the deadline of a close in which offsets are still saved


def _group_order_check(session: Session) -> GroupOrderCheck | None:
    """Who the other members are, where it matters: with order by key, in clustering."""
    config = session.config
    if not config.by_key or config.broadcasting:
        return None
    return GroupOrderCheck(session.client, session.group, config.order, session.log)


class ConsumerRuntime:
    """Thread-safe.

    Args:
        session: the consumer's shared state; its `attention` is set here.
        handler: the user's function; one that is `async def` runs as coroutines.
        allocate: who gets which queues.
        state_topics: of the group, with order by key; else None.
        dry_run: whether the handler can be tried without a trace.
        kill_call: ends the worker process that runs a call; None: handlers run in this process.

    Attributes:
        failed: called once, with the reason, when no handler can ever be called again.
    """

    def __init__(
        self,
        session: Session,
        handler: Handler | AsyncHandler,
        allocate: Allocation,
        state_topics: StateTopics | None,
        *,
        dry_run: bool = False,
        kill_call: Callable[[ConsumeContext], None] | None = None,
    ) -> None:
        self._session = session
        self.failed: Callable[[str], None] = lambda _: None
        self._joined = False
        self._joining = threading.Lock()
        self._attention = threading.Event()
        session.attention = self._on_attention
        calls = RunningCalls(session.client.awake.now)
        self._watches = self._hang_watches(calls, kill_call)
        if self._watches:
            handler = calls.around(handler)
        engine = Coroutines if is_async(handler) else Worker
        self.engine = engine(session, Caller(session, handler), self._reopen)
        session.interrupt = self.engine.interrupt
        self._saver = OffsetSaver(session)
        self._puller = Puller(session, self.engine.ready, self._saver.find_out)
        self.control = Control(session, self._puller, self.engine.ready)
        order_check = _group_order_check(session)
        self._engine_watch = EngineWatch(session, self.engine, self._on_gone)
        self.inspector = ConsumerInspector(session, order_check, calls, self._engine_watch)
        self.direct = DirectConsumption(session, self.engine.ready)
        self._span_ends = SpanEnds(session)
        self.releaser = Releaser(session, self._saver)
        self._taker = taker = Taker(
            session, self._puller.start, self.releaser.drop_outdated, state_topics
        )
        self.first_looks = taker.first_looks
        rebalancer = Rebalancer(
            session,
            allocate,
            taker,
            self.releaser,
            self._again,
            membership=self,
            order_check=order_check,
        )
        config = session.config
        self.rounds = self._periodic("rebalance", config.rebalance_interval, rebalancer.round)
        self._keeper = keeper = LockKeeper(session)
        session.renew_again = self._renew_again
        self._locks = self._periodic("locks", config.lock_interval, keeper.renew_all, first=1.0)
        self._offsets = self._periodic("offsets", config.commit_interval, self._save_round)
        ages = Expiring(session)
        self._periodics = (
            self.rounds,
            self._locks,
            self._periodic("looks", LOOKS, self._look),
            self._offsets,
            self._periodic("ages", AGES_INTERVAL, ages.round, first=FIRST_KEEP),
            *self._watches,
            *(() if state_topics is None else self._parking_loops(dry_run)),
        )

    def _periodic(
        self, role: str, interval: float, work: Callable[[], object], first: float | None = None
    ) -> Periodic:
        first_after = interval if first is None else first
        return Periodic(f"{role}-{self._session.group}", interval, work, first_after=first_after)

    def _parking_loops(self, dry_run: bool) -> tuple[Periodic, ...]:
        """Those that see to parked keys."""
        engine = self.engine
        commands = ParkCommands(self._session, self._go_on, engine.parker, dry_run=dry_run)
        keepalive = RetentionRefresh(self._session, engine.ready)
        return (
            self._periodic("parked", COMMANDS_INTERVAL, commands.round),
            self._periodic("keepalive", KEEP_INTERVAL, keepalive.round, first=FIRST_KEEP),
        )

    def _hang_watches(
        self, calls: RunningCalls, kill_call: Callable[[ConsumeContext], None] | None
    ) -> tuple[Periodic, ...]:
        """The loop that looks for handlers that hang, if one may."""
        timeout = self._session.config.handler_timeout
        if timeout is None:
            return ()
        watch = HangWatch(self._session, calls, kill_call)
        return (self._periodic("hanging", interval(timeout), watch.round),)

    def _look(self) -> None:
        self._keeper.look()
        self._engine_watch.round()

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run async handlers on this event loop; before `start`."""
        if isinstance(self.engine, Coroutines):
            self.engine.use(loop)

    def _save_round(self) -> None:
        self._span_ends.log_new()
        self._saver.save_all()

    def start(self) -> None:
        """Begin all rounds, the first rebalance at once."""
        for loop in self._periodics:
            loop.start()
        self.rounds.wake()

    # --- membership ----------------------------------------------------------------------------

    def join(self) -> NoPermission | None:
        """Become a member of the group; returns the refusal of a heartbeat, if all brokers refuse.

        Without effect for a member, and while the consumer closes.

        Raises:
            LifecycleError: the client has a member of this group already.
        """
        if self._joined:  # nearly always
            return None
        session, config = self._session, self._session.config
        with self._joining:
            if self._joined or session.closing:
                return None
            session.client.heartbeat.register_consumer(
                session.group,
                subscriptions=session.announced,
                on_members_changed=self.rounds.wake,
                consume_from=config.consume_from,
                broadcasting=config.broadcasting,
                answers=GroupAnswers(
                    running_info=self.inspector.running_info,
                    reset_offsets=self.control.reset,
                    offsets=self.control.offsets,
                    consume_directly=self.direct.consume,
                ),
            )
            self._joined = True
        return session.client.heartbeat.heartbeat_now()

    def leave(self) -> None:
        """End the membership, if there is one: not a twin's in a shared client."""
        with self._joining:
            if self._joined:
                self._session.client.heartbeat.unregister_consumer(self._session.group)
                self._joined = False

    # --- end -----------------------------------------------------------------------------------

    def wind_down(self, seconds: float) -> bool:
        """Release every queue; returns whether that was done within `seconds`.

        Where handlers still run then, the offsets are saved at least: the process may end with
        them. That takes a second more, and a request's time-out where a broker hangs. Once nothing
        of the program is left to wait for, brokers have `BROKERS_PATIENCE` to take the queues back.
        A time-out of a request can come on top.
        """
        clock = self._session.client.awake
        begun = moved = clock.now()
        self._session.closing = True
        self._puller.close()
        left, count = seconds, -1
        while True:
            ended = self._rounds_ended()
            if self._released(now() + left) and ended:
                return True
            moment, before, count = clock.now(), count, len(self._session.held())
            if count != before or self._session.busy():
                moved = moment
            left = begun + seconds - moment
            silent = moment - moved >= BROKERS_PATIENCE and count > 0
            if silent or left <= 0:
                break
            self._attention.wait(min(left, _RELEASE_RETRY))
        if self._session.busy():
            self._saver.save_all(now() + _LAST_SAVES)
        return False

    def _rounds_ended(self) -> bool:
        """Whether no round runs any more but the one whose hook is closing the consumer."""
        return self.rounds.stop(_RELEASE_RETRY) or self.rounds.inside

    def wait_released(self) -> None:
        """Block until every queue is released; its lock is renewed until then."""
        while not self._released():
            self._attention.wait(_RELEASE_RETRY)

    def stop(self) -> None:
        """End all rounds and threads; running handlers are not waited for."""
        self._puller.close()
        self.engine.close()
        last = now() + self._session.client.config.request_timeout  # of all of them together
        for loop in self._periodics:
            loop.stop(0)
        for loop in self._periodics:
            loop.stop(max(0.0, last - now()))
        for part in (self._keeper, self._saver, self._taker, self.releaser):
            part.steps.wait(last - now())

    def _released(self, deadline: float = math.inf) -> bool:
        self._attention.clear()
        self.releaser.drop_all(Drop.CLOSING)
        self.engine.abandon()
        self.releaser.release_idle(deadline)
        ended = self._taker.steps.wait(0) and self.releaser.steps.wait(0)
        self.releaser.notify_released()  # what ended after it was waited for
        return ended and not self._session.held()

    def _on_gone(self, why: str) -> None:
        self.failed(why)

    def _on_attention(self) -> None:
        self._attention.set()
        self.rounds.wake()

    def _again(self, seconds: float) -> None:
        self.rounds.wake_within(seconds)

    def _renew_again(self, seconds: float) -> None:
        self._locks.wake_within(seconds)

    def _go_on(self, held: HeldQueue) -> None:
        """Of a queue that has something to hand out again, perhaps without its body."""
        self.engine.ready(held)
        self._reopen(held)

    def _reopen(self, held: HeldQueue) -> None:
        self._puller.reopen(held)


# --- lifecycle ------------------------------------------------------------------------------------


_AFTER_KILL = 5.0  # seconds to save and unlock once the handlers are dead
_AFTER_KILL_AT_EXIT = 1.0


class State(StrEnum):
    """Where a consumer is in its lifecycle."""

    CREATED = "created"
    RUNNING = "running"
    CLOSING = "closing"
    FAILED = "failed"
    CLOSED = "closed"


class Lifecycle:
    """Thread-safe.

    Args:
        session: the consumer's shared state.
        runtime: its parts.
        state_topics: with order by key; else None.
        offsets: of a broadcasting member; else None.
        owned: closed at the end, in this order: what belongs to this consumer alone.
        processes: that run the handler; None: it runs in this one, and nothing can end it.

    Attributes:
        state: where it is.
        offsets: as given.
        lock: held over each step but the waiting for handlers.
    """

    def __init__(
        self,
        session: Session,
        runtime: ConsumerRuntime,
        *,
        state_topics: StateTopics | None,
        offsets: LocalOffsets | None,
        owned: tuple[Callable[[], None], ...],
        processes: ProcessHandler | None,
    ) -> None:
        self.state = State.CREATED
        self.lock = threading.RLock()
        self._session = session
        self._runtime = runtime
        self._state_topics = state_topics
        self.offsets = offsets
        self._owned = owned
        self._processes = processes
        self._failure: str | None = None
        self._left_named = False
        self._closed = Latch()
        self._ending = Ending(session.group, self._close_at_exit, self._name_left)
        runtime.failed = self._fail

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
            loop: where async handlers run; None: on the consumer's own.
        """
        with self.lock:
            self.require(State.CREATED)
            if self._processes is not None:
                self._processes.check_place()
            if not self._session.subscriptions:
                raise ConfigError("subscribe to a topic before start: there is nothing to consume")
            if loop is not None:
                self._runtime.use(loop)
            with _STARTED_LOCK:
                _STARTED.add(self)
            try:
                self._join()
                self._ending.open()
            except BaseException:
                self.state = State.FAILED
                self._stop_parts()
                raise
            self.state = State.RUNNING

    def admit(self, findings: Iterable[Found]) -> None:
        """Log what was found before we join.

        Raises:
            OrderlyError: the first refusal; what would come after it is not asked.
        """
        for found in findings:
            match found:
                case StartRefused(error):
                    raise error
                case NotReported():
                    self._log_not_checked(found)
                case NotOrdered(broker):  # it matters to who adds gRPC members
                    self._session.log.info("group.not_ordered", broker=broker, hint=found.hint)
                case BehindProxy():
                    self._session.log.info("start.behind_proxy", hint=found.hint)
                case SubscriptionsDiffer(differences, members):
                    self._session.log.warning(
                        "group.subscriptions_differ",
                        differences=differences,
                        members=members,
                        hint=found.hint,
                    )

    def _log_not_checked(self, found: NotReported) -> None:
        log, error = self._session.log, str(found.error)
        if found.member is not None:
            log.warning("member.order_unknown", member=found.member, error=error)
        else:
            where = {} if found.broker is None else {"broker": found.broker}
            log.warning("start.not_checked", **where, error=error)

    def _join(self) -> None:
        session, client, config = self._session, self._session.client, self._session.config
        client.start()
        wanted = session.subscriptions.values()
        self.admit(check_start(client, session.group, wanted, config))
        for topic in session.subscriptions:
            self.ensure_state(topic)
        if self.offsets is not None:
            self.offsets.open()
        else:
            retry_topic = RETRY_PREFIX + session.group
            session.subscriptions = {
                **session.subscriptions,
                retry_topic: Subscription.from_expression(retry_topic, "*", session.version),
            }
        for topic in session.subscriptions:
            self.look_around(topic)
        refusal = self._runtime.join()
        if refusal is not None:  # no broker takes us for a member: wrong key, or not permitted
            raise refusal
        self._runtime.start()
        session.log.info("consumer.started", topics=sorted(session.subscriptions))

    def ensure_state(self, topic: str) -> None:
        """See that there is a place to remember what is finished ahead in `topic`."""
        if self._state_topics is not None and self._session.by_key(topic):
            self._state_topics.ensure(topic)

    def look_around(self, topic: str) -> None:
        """See whether the group is new in `topic`; before the first heartbeat that names it."""
        self._runtime.first_looks.look(topic)

    # --- end -----------------------------------------------------------------------------------

    def refuse_handlers(self) -> None:
        """Raise LifecycleError if it is a handler that wants to close its own consumer."""
        if self._runtime.engine.handling:
            raise LifecycleError(
                "a handler cannot close its own consumer, because closing waits for the handler:"
                " close it from another thread or task"
            )

    def close(self) -> None:
        """Stop cleanly; see `OrderlyConsumer.close`."""
        if self._session.client.connections.foreign:  # a forked child: nothing here is its own
            return
        self.refuse_handlers()
        if self._runtime.engine.inside:
            raise LifecycleError(
                "close() would wait for handlers of this thread's event loop: await aclose()"
            )
        shielded(self._close)

    def _close(self, seconds: float = math.inf, after_kill: float = _AFTER_KILL) -> None:
        with self.lock:
            if self.state in (State.CLOSING, State.CLOSED):
                return
            running = self.state is State.RUNNING
            self.state = State.CLOSING
        try:
            # Not under the lock: a hook that calls the consumer meanwhile must not wait for ever.
            if not running or self._wound_down(seconds, after_kill):
                self._stop_parts()
            else:
                self._outlive()
            self._session.outlook = {}  # what nobody looks after any more is not explained either
            self.state = State.FAILED if running and self._failure else State.CLOSED
            if running:
                self._session.log.info("consumer.closed")
        finally:
            self._closed.set()
            self._ending.done()

    def _close_at_exit(self) -> None:
        if self.state is State.RUNNING:
            self._session.log.warning("consumer.left_open", seconds=PATIENCE)
        self._close(FOR_HANDLERS, _AFTER_KILL_AT_EXIT)
        self._closed.wait()  # it may have been closing already

    def close_fully(self) -> None:
        """Close; while another thread does so already, wait for it."""
        if not self._session.client.connections.foreign:
            self.close()
            self._closed.wait()

    def _fail(self, reason: str) -> None:
        """Close, for no handler can ever be called again; whoever waits is told why."""
        with self.lock:
            if self.state is not State.RUNNING:
                return
            self._failure = reason
        name = f"orderly-failing-{self._session.group}"
        try:
            threading.Thread(target=self._close, name=name, daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._close()

    def _wound_down(self, seconds: float, after_kill: float) -> bool:
        """Release every queue; worker processes that run at the deadline are killed for it."""
        if self._runtime.wind_down(min(seconds, self._session.config.close_timeout)):
            return True
        if self._processes is None or not self._session.busy():
            return False
        self._processes.kill()
        return self._runtime.wind_down(after_kill)

    def wait(self, timeout: float | None, *, signals: bool) -> bool:
        """Block until it is closed; see `OrderlyConsumer.wait`."""
        self._refuse_to_wait()
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        with heard(signals) as received:
            while not self._closed.wait(max(0.0, min(LOOK, end - time.monotonic()))):
                if received() or time.monotonic() >= end:
                    break
            self.close_on(received())
        self.close_on(received())  # it came while the handlers were put back
        self._refuse_to_wait()
        return self._closed.is_set()

    def _refuse_to_wait(self) -> None:
        """Raise LifecycleError if nothing runs that could be waited for, or nothing ever will."""
        group = self._session.group
        if self.state is State.CREATED:
            raise LifecycleError(
                f"the consumer of group {group!r} is not started, so it consumes nothing: call"
                " start(), or wait within `with consumer:`"
            )
        if self._failure is not None and self._closed.is_set():
            raise LifecycleError(
                f"the consumer of group {group!r} has failed: {self._failure}; make a new one"
            )
        if self.state is State.FAILED:
            self.require(State.RUNNING)

    def close_on(self, received: signal.Signals | None) -> None:
        """Close this and every other consumer that was started in the process, after a signal.

        At the same time, for each may need its close_timeout.
        """
        if received is None:
            return
        with _STARTED_LOCK:
            lives = {self, *_STARTED}
        name = f"orderly-closing-on-{received.name}"
        closing = [
            threading.Thread(target=life.end, args=(received,), name=name, daemon=True)
            for life in lives
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def end(self, received: signal.Signals) -> None:
        """Close because of a signal, or wait for who does so already."""
        if self.state is State.RUNNING:
            self._session.log.info("consumer.told_to_end", signal=received.name)
        self.close_fully()

    def _outlive(self) -> None:
        """Leave the group, and keep the locks of what still runs until it has ended."""
        self._name_left()
        self._runtime.leave()
        name = f"orderly-closing-{self._session.group}"
        with suppress(RuntimeError):  # there are no more threads: above all, at the process's end
            threading.Thread(target=self._end_later, name=name, daemon=True).start()

    def _name_left(self) -> None:
        """Log which queues the close leaves locked; once."""
        if self._left_named:
            return
        self._left_named = True
        for held in self._session.held():
            if held.busy:
                held.log.error("queue.left_locked", **longest_handler(held))
            else:
                saved, offset = held.owned.fence.written, held.owned.offset
                error = held.release_error or "it has not answered yet"
                held.log.error("queue.left_behind", saved=saved, offset=offset, error=error)

    def _end_later(self) -> None:
        self._runtime.wait_released()
        self._stop_parts()

    def _stop_parts(self) -> None:
        self._runtime.stop()
        self._runtime.leave()
        for close in self._owned:
            close()


_STARTED: WeakSet[Lifecycle] = WeakSet()
_STARTED_LOCK = threading.Lock()
