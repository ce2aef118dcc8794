"""Runs the messages of held queues through an `async def` handler, on one event loop.

A run is a task; it takes one batch after another as a run on a thread does (`workers`), so that
coroutines are started once for many messages. Up to `concurrency` runs are in flight.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from orderly.clock import now
from orderly.consumer.handler_caller import Caller, LaneTask, next_call
from orderly.consumer.session import HeldQueue, Session
from orderly.consumer.workers import Burst, Engine, one_call
from orderly.interruptions import to_its_end
from orderly.ordering.lane import Batch

P = ParamSpec("P")
T = TypeVar("T")
TURN = 0.01  # seconds a run may go on without letting others have the loop


@dataclass(slots=True, eq=False)
class _Run:
    """What one task works on.

    Attributes:
        claimed: whether the queue's claim is still the task's; at its end that is a failure.
        interrupted: whether we cancelled the task.
    """

    held: HeldQueue
    batch: Batch | None = None
    claimed: bool = True
    interrupted: bool = False


class Coroutines(Engine):
    """Feeds an async handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, when there is something to pull again.
    """

    def __init__(
        self, session: Session, caller: Caller, reopened: Callable[[HeldQueue], None]
    ) -> None:
        super().__init__(session, caller, reopened)
        self._limit = session.config.concurrency
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[HeldQueue] = deque()  # claimed runs for which there was no room
        self._tasks: dict[asyncio.Task[None], _Run] = {}  # the loop's thread only
        self._in_flight = 0
        self._closed = False
        self._asked = self._answered = 0  # signs of life of the loop
        self._ran_on: int | None = None  # the thread on which the loop last ran

    # --- the loop ------------------------------------------------------------------------------

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run handlers on the caller's loop instead of one of our own; before the first run."""
        self._loop = loop

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = self._own = self._start_loop()
            return self._loop

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        loop, name = asyncio.new_event_loop(), f"orderly-loop-{self._session.group}"
        try:
            threading.Thread(target=_run_loop, args=(loop,), name=name, daemon=True).start()
        except RuntimeError:  # the system has no more threads
            loop.close()
            raise
        return loop

    @property
    def inside(self) -> bool:
        """True on the loop's thread: to wait there for a handler would be for ever."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    @property
    def handling(self) -> bool:
        """True in a task that runs a handler."""
        return self.inside and asyncio.current_task() in self._tasks

    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""
        self.errands.close()
        with self._lock:
            self._closed = True
            self._waiting.clear()
        self._end_own_loop()

    def _end_own_loop(self) -> None:
        """Stop a loop of our own once nothing runs on it."""
        with self._lock:
            done = self._closed and self._in_flight == 0
            loop, self._own = self._own, None if done else self._own
        if done and loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def abandon(self) -> None:
        """Free what was in work when the program closed its loop: nothing ends there any more."""
        if self._loop is not None and self._loop.is_closed():
            while self._tasks:
                _, run = self._tasks.popitem()
                if run.claimed:
                    self._failed(run.held, run.batch)

    # --- whether it runs -----------------------------------------------------------------------

    @property
    def begun(self) -> int:
        """How often the loop has shown that it runs."""
        return self._answered

    @property
    def waits(self) -> bool:
        """Whether the loop was asked for a sign of life, or has no thread for a run that waits."""
        return self._asked != self._answered or bool(self._refused)

    @property
    def trouble(self) -> str:
        """What is the matter with the loop."""
        if self._loop is None:
            return "the system starts no thread for the event loop"
        how = "does not run" if self.stopped else "is blocked by what runs on it"
        return f"the event loop {how}"

    @property
    def stopped(self) -> bool:
        """Whether the loop does not run now; the program may run it again."""
        return self._loop is not None and not self._loop.is_running()

    @property
    def gone(self) -> str | None:
        """That the loop was closed, and not by us."""
        loop = self._loop
        closed = loop is not None and loop.is_closed() and not self._closed
        return "the event loop on which the handlers run was closed" if closed else None

    @property
    def thread(self) -> int | None:
        """The loop's, where it blocks."""
        return None if self.stopped else self._ran_on

    def nudge(self, *, standing: bool) -> None:
        """Ask the loop for a sign of life, once at a time; one that stands may have no thread."""
        with suppress(RuntimeError):  # it was closed just now, or there is still no thread for it
            loop = self._running_loop() if standing and not self._closed else self._loop
            if loop is not None and self._asked == self._answered:
                loop.call_soon_threadsafe(self._answer)
                self._asked += 1

    def _answer(self) -> None:
        self._ran_on = threading.get_ident()
        self._answered += 1

    # --- runs ----------------------------------------------------------------------------------

    def interrupt(self, held: HeldQueue) -> None:
        """The queue is lost: ask the tasks that work on it to stop."""
        with self._lock:
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: nothing runs any more
                loop.call_soon_threadsafe(self._cancel, held)

    def _cancel(self, held: HeldQueue) -> None:
        for task, run in self._tasks.items():
            if run.held is held:
                run.interrupted = True
                task.cancel("the queue's lock was lost")

    def _submit(self, held: HeldQueue) -> None:
        with self._lock:
            if self._closed:
                return
            if self._in_flight >= self._limit:
                self._waiting.append(held)
                self._in_line(held)
                return
            self._in_flight += 1
        try:
            self._running_loop().call_soon_threadsafe(self._begin, held)
        except RuntimeError as error:  # the program closed its loop, or there is no thread for ours
            with self._lock:
                self._in_flight -= 1
            self._submit_later(held, error)
        else:
            self._in_line(held)

    def _begin(self, held: HeldQueue) -> None:
        self._ran_on = threading.get_ident()
        run = _Run(held)
        task = asyncio.get_running_loop().create_task(self._work_off(run))
        self._tasks[task] = run
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task)
        if run.claimed:  # the lane must go on
            self._failed(run.held, run.batch)
            if not task.cancelled():
                error = task.exception()
                run.held.log.error(
                    "run.failed", hint="a defect of orderly: report it", exc_info=error
                )
        self._make_room(stopping=task.cancelled() and not run.interrupted)
        if run.held.owned.dropped is not None:
            self._session.attention()
        self._end_own_loop()

    def _make_room(self, *, stopping: bool) -> None:
        """Let the next run begin; where the program is `stopping` its tasks, not at once.

        The loop may be about to end, and a task that begins then would never be waited for.
        """
        with self._lock:
            following = self._waiting.popleft() if self._waiting and not stopping else None
            self._in_flight -= following is None
        if following is not None:
            self._begin(following)
        elif stopping:
            self._session.client.schedule.after(self._session.config.suspend, self._fill)

    def _fill(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for held in waiting:
            self._submit(held)

    async def _work_off(self, run: _Run) -> None:
        held, turn = run.held, now()
        with held.lock:
            held.owned.begin_run()
        while (batch := self._take(held)) is not None:
            run.batch = batch
            await self._work(held, batch)
            moment = now()
            if held.owned.wants_bodies(moment):
                self._reopened(held)
            if moment - turn >= TURN:
                await asyncio.sleep(0)
                turn = now()
                if self._waiting and held.owned.dropped is None:
                    self._submit_behind(run)
                    return
        run.claimed = False

    def _submit_behind(self, run: _Run) -> None:
        """Pass the claim on and wait in line again: another queue waits for room."""
        run.claimed = False
        with self._lock:
            self._waiting.append(run.held)

    async def _work(self, held: HeldQueue, batch: Batch) -> None:
        if batch.lane_task is not None:
            await self._run_lane_task(held, batch, batch.lane_task)
        elif batch.repeats is not None:
            self._finisher.pass_over(held, batch)
        elif held.sets_aside(batch.key):
            await _in_thread(self._finisher.set_aside, held, batch)
        elif not held.owned.suspects.careful:
            await self._handle(held, batch)
        elif await _in_thread(self._suspect_runs.open, held, batch):
            await self._handle(held, batch)
            await _in_thread(self._suspect_runs.close, held)

    async def _handle(self, held: HeldQueue, batch: Batch) -> None:
        size, statistics = self._session.config.batch_size, self._session.statistics
        if len(batch.messages) <= size:
            called = await self._caller.call_async(held, batch.messages, batch.key)
            batch.began = called.at
            one_call(held, called, size, statistics)
        else:
            with Burst(held, batch, size, statistics) as burst:
                while messages := burst.next_call():
                    burst.called = await self._caller.call_async(held, messages, batch.key)
            called = burst.outcome
        if self._finisher.blocks(held, batch, called):
            await _in_thread(self._finisher.finish, held, batch, called)
        else:
            self._finisher.finish(held, batch, called)

    async def _run_lane_task(self, held: HeldQueue, batch: Batch, lane_task: LaneTask) -> None:
        with closing(lane_task.steps()) as steps:
            called = None
            while (wanted := await _in_thread(next_call, steps, called)) is not None:
                called = await self._caller.call_async(
                    held, wanted.messages, batch.key, wanted.mode
                )
                batch.began = called.at
                called.count(self._session.statistics)
        self._end_lane_task(held, batch)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        _run_until_stopped(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    stopped = False
    while not stopped:
        # A handler's, or a task's that it made: signals come to the main thread only.
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
            stopped = True


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what blocks on a thread."""
    return await to_its_end(partial(function, *args, **kwargs), "orderly-aside-run")
