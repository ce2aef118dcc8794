"""The parts of one running consumer, put together: what feeds what, and what runs how often."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

from orderly.config import is_async
from orderly.consumer.company import Company
from orderly.consumer.control import Control
from orderly.consumer.handling.calling import Caller
from orderly.consumer.handling.coroutines import Coroutines
from orderly.consumer.handling.direct import DirectConsumption
from orderly.consumer.handling.hanging import HangWatch, interval
from orderly.consumer.handling.running_calls import RunningCalls
from orderly.consumer.handling.worker import Worker
from orderly.consumer.owning.lock_keeper import LOOK_INTERVAL as LOOK_AT_LEASES
from orderly.consumer.owning.lock_keeper import LockKeeper
from orderly.consumer.owning.offset_saver import OffsetSaver
from orderly.consumer.owning.rebalancer import Rebalancer
from orderly.consumer.owning.releasing import Releaser
from orderly.consumer.owning.state_topics import StateTopics
from orderly.consumer.owning.taking import Taker
from orderly.consumer.parking.commands import LOOK_INTERVAL, Commands
from orderly.consumer.parking.expiring import LOOK_INTERVAL as AGES_INTERVAL
from orderly.consumer.parking.expiring import Expiring
from orderly.consumer.parking.keeping import FIRST_KEEP, KEEP_INTERVAL, Keepalive
from orderly.consumer.puller import Puller
from orderly.consumer.session import Held, Session, now
from orderly.consumer.telling.insight import Insight
from orderly.consumer.telling.span_ends import SpanEnds
from orderly.ordering.allocation import Allocation
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.drop import Drop
from orderly.remoting.periodic import Periodic

_RELEASE_RETRY = 0.5  # seconds between attempts to hand queues on while closing
_LAST_SAVES = 1.0  # seconds after the deadline of a close in which offsets are still saved


def _company(session: Session) -> Company | None:
    """Who the other members are, where it matters: with order by key, in clustering."""
    config = session.config
    if not config.by_key or config.broadcasting:
        return None
    return Company(session.client, session.group, config.order, session.log)


class Loops:
    """Thread-safe.

    Args:
        session: the consumer's shared state; its `attention` is set here.
        handler: the user's function; one that is `async def` runs as coroutines.
        allocate: who gets which queues.
        state_topics: of the group, with order by key; else None.
        dry_run: whether the handler can be tried without a trace.
        kill_call: ends the worker process that runs a call; None: handlers run in this process.
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
        self._attention = threading.Event()
        session.attention = self._on_attention
        calls = RunningCalls()
        self._watches = self._hang_watches(calls, kill_call)
        if self._watches:
            handler = calls.around(handler)
        engine = Coroutines if is_async(handler) else Worker
        self.engine = engine(session, Caller(session, handler), self._reopen)
        session.interrupt = self.engine.interrupt
        self._saver = OffsetSaver(session)
        self._puller = Puller(session, self.engine.ready, self._saver.find_out)
        self.control = Control(session, self._puller, self.engine.ready)
        company = _company(session)
        self.insight = Insight(session, company, calls)
        self.direct = DirectConsumption(session, self.engine.ready)
        self._span_ends = SpanEnds(session)
        self.releaser = Releaser(session, self._saver)
        self._taker = taker = Taker(
            session, self._puller.start, self.releaser.drop_outdated, state_topics
        )
        rebalancer = Rebalancer(
            session, allocate, taker, self.releaser, self._again, company=company
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
            self._periodic("leases", LOOK_AT_LEASES, keeper.look),
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
        commands = Commands(self._session, self._go_on, engine.aside, dry_run=dry_run)
        keepalive = Keepalive(self._session, engine.ready)
        return (
            self._periodic("parked", LOOK_INTERVAL, commands.round),
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

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run async handlers on this event loop; before `start`."""
        if isinstance(self.engine, Coroutines):
            self.engine.use(loop)

    def _save_round(self) -> None:
        self._span_ends.tell()
        self._saver.save_all()

    def start(self) -> None:
        """Begin all rounds, the first rebalance at once."""
        for loop in self._periodics:
            loop.start()
        self.rounds.wake()

    def wind_down(self, seconds: float) -> bool:
        """Release every queue; returns whether that was done within `seconds`.

        Where it was not, the offset is saved at least: the process may end with the handler. That
        takes a second more, and a request's time-out where a broker hangs.
        """
        deadline = now() + seconds
        self._session.closing = True
        self._puller.close()
        while True:
            ended = self._rounds_ended()
            if self._released(deadline) and ended:
                return True
            left = deadline - now()
            if left <= 0:
                self._saver.save_all(now() + _LAST_SAVES)
                return False
            self._attention.wait(min(left, _RELEASE_RETRY))

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
        for loop in self._periodics:
            loop.stop()
        for part in (self._keeper, self._saver, self._taker, self.releaser):
            part.steps.wait(self._session.client.config.request_timeout)

    def _released(self, deadline: float = math.inf) -> bool:
        self._attention.clear()
        self.releaser.drop_all(Drop.CLOSING)
        self.engine.abandon()
        self.releaser.release_idle(deadline)
        ended = self._taker.steps.wait(0) and self.releaser.steps.wait(0)
        self.releaser.tell_released()  # what ended after it was waited for
        return ended and not self._session.held()

    def _on_attention(self) -> None:
        self._attention.set()
        self.rounds.wake()

    def _again(self, seconds: float) -> None:
        self.rounds.wake_within(seconds)

    def _renew_again(self, seconds: float) -> None:
        self._locks.wake_within(seconds)

    def _go_on(self, held: Held) -> None:
        """Of a queue that has something to hand out again, perhaps without its body."""
        self.engine.ready(held)
        self._reopen(held)

    def _reopen(self, held: Held) -> None:
        self._puller.reopen(held)
