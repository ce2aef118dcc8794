"""Runs the messages of held queues through an `async def` handler, on one event loop.

A run is a task; it takes one batch after another as a run on a thread does (`worker`), so that
coroutines are started once for many messages. Up to `concurrency` runs are in flight.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from orderly.consumer.handling.calling import Caller
from orderly.consumer.handling.direct_call import DirectCall
from orderly.consumer.handling.finishing import Finisher
from orderly.consumer.session import Held, Session, now
from orderly.ordering.lane import Batch

TURN = 0.01  # seconds a run may go on without letting others have the loop


@dataclass(slots=True, eq=False)
class _Run:
    """What one task works on."""

    held: Held
    batch: Batch | None = None


class Coroutines:
    """Feeds an async handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, when there is something to pull again.
    """

    def __init__(self, session: Session, caller: Caller, reopened: Callable[[Held], None]) -> None:
        self._session = session
        self._caller = caller
        self._reopened = reopened
        self._finisher = Finisher(session, self.ready)
        self._limit = session.config.concurrency
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: threading.Thread | None = None
        self._waiting: deque[Held] = deque()  # claimed runs for which there was no room
        self._tasks: dict[asyncio.Task[None], _Run] = {}  # the loop's thread only
        self._in_flight = 0
        self._closed = False

    # --- the loop ------------------------------------------------------------------------------

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run handlers on the caller's loop instead of one of our own; before the first run."""
        self._loop = loop

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = f"orderly-loop-{self._session.group}"
                self._own = threading.Thread(target=self._run_loop, name=name, daemon=True)
                self._own.start()
            return self._loop

    def _run_loop(self) -> None:
        assert self._loop is not None, "set before the thread starts"
        asyncio.set_event_loop(self._loop)
        try:
            _run_until_stopped(self._loop)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    @property
    def inside(self) -> bool:
        """True on the loop's thread: to wait there for a handler would be for ever."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
        self._end_own_loop()

    def _end_own_loop(self) -> None:
        """Stop a loop of our own once nothing runs on it."""
        with self._lock:
            done = self._closed and self._in_flight == 0 and self._own is not None
            loop, self._own = self._loop, None if done else self._own
        if done and loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    # --- runs ----------------------------------------------------------------------------------

    def ready(self, held: Held) -> None:
        """Start a run of a queue that has something to hand out, unless enough are under way."""
        with held.lock:
            claimed = held.owned.request_run()
        if claimed:
            self._submit(held)

    def interrupt(self, held: Held) -> None:
        """The queue is lost: ask the tasks that work on it to stop."""
        with self._lock:
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: nothing runs any more
                loop.call_soon_threadsafe(self._cancel, held)

    def _cancel(self, held: Held) -> None:
        for task, run in self._tasks.items():
            if run.held is held:
                task.cancel("the queue's lock was lost")

    def _submit(self, held: Held) -> None:
        with self._lock:
            if self._closed:
                return
            if self._in_flight >= self._limit:
                self._waiting.append(held)
                return
            self._in_flight += 1
        with suppress(RuntimeError):  # the caller closed its loop: nothing can run any more
            self._running_loop().call_soon_threadsafe(self._begin, held)

    def _begin(self, held: Held) -> None:
        run = _Run(held)
        task = asyncio.get_running_loop().create_task(self._work_off(run))
        self._tasks[task] = run
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task)
        failed = task.cancelled() or task.exception() is not None
        if failed:  # the lane must not stand still; a cancelled task may not even have begun
            with run.held.lock:
                run.held.owned.begin_run()
                run.held.owned.abort(run.batch)
        with self._lock:
            following = self._waiting.popleft() if self._waiting else None
            self._in_flight -= following is None
        if following is not None:
            self._begin(following)
        if run.held.owned.dropped is not None:
            self._session.attention()
        self._end_own_loop()
        if failed:
            self._go_on_later(run.held, task)

    def _go_on_later(self, held: Held, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            held.log.error("a consume run failed; this is a defect", exc_info=task.exception())
        again = partial(self.ready, held)
        self._session.client.schedule.after(self._session.config.suspend, again)

    async def _work_off(self, run: _Run) -> None:
        held, turn = run.held, now()
        with held.lock:
            held.owned.begin_run()
        while (batch := self._take(held)) is not None:
            run.batch = batch
            await self._work(held, batch)
            if held.owned.wants_bodies:
                self._reopened(held)
            if now() - turn >= TURN:
                await asyncio.sleep(0)
                turn = now()
                if self._waiting and held.owned.dropped is None:
                    self._submit_behind(held)
                    return

    def _submit_behind(self, held: Held) -> None:
        """Keep the claim and stand in line again: another queue waits for room."""
        with self._lock:
            self._waiting.append(held)

    def _take(self, held: Held) -> Batch | None:
        with held.lock:
            batch = held.owned.take(self._session.config.batch_size, now())
            another = batch is not None and held.owned.request_run()
        if another:
            self._submit(held)
        return batch

    async def _work(self, held: Held, batch: Batch) -> None:
        errand = batch.errand
        if isinstance(errand, DirectCall):
            if errand.wanted:
                errand.answer(await self._caller.call_async(held, (errand.message,), batch.key))
            with held.lock:
                held.owned.give_back(batch)
            return
        called = await self._caller.call_async(held, batch.messages, batch.key)
        if self._finisher.blocks(batch, called):
            await _to_its_end(asyncio.to_thread(self._finisher.finish, held, batch, called))
        else:
            self._finisher.finish(held, batch, called)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    stopped = False
    while not stopped:
        with suppress(KeyboardInterrupt):  # a handler's: signals come to the main thread only
            loop.run_forever()
            stopped = True


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await it even if the task is cancelled meanwhile: a thread's work cannot be taken back."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    finally:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
