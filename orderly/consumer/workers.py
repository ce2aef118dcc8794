"""Runs the messages of held queues through the handler, on threads.

A run claims its place, takes one batch after another and ends, or it fails and puts back what it
had in work. It belongs to one queue; each batch comes from the lane that has waited longest. With
order by queue there is one run of a queue at a time, with order by key as many as have something
to do; no thread ever waits for a queue or a key. Java:
ConsumeMessageOrderlyService.ConsumeRequest.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self

from orderly.clock import now
from orderly.consumer.errands import Errands
from orderly.consumer.finishing import Finisher
from orderly.consumer.handler_caller import Called, Caller, LaneTask, next_call
from orderly.consumer.parking import Parker
from orderly.consumer.rate_gate import RateGate
from orderly.consumer.session import HeldQueue, Session
from orderly.consumer.statistics import ReturnType, Statistics
from orderly.consumer.suspect_runs import SuspectRuns
from orderly.log import get_logger, where
from orderly.model import ReceivedMessage
from orderly.ordering.lane import Batch
from orderly.ordering.results import PLAIN_SUCCESS, Disposition


class Engine(ABC):
    """Feeds a handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, when there is something to pull again.
    """

    def __init__(
        self, session: Session, caller: Caller, reopened: Callable[[HeldQueue], None]
    ) -> None:
        self._session = session
        self._caller = caller
        self._reopened = reopened
        self._finisher = Finisher(session, self.ready, reopened)
        rate = session.config.max_rate
        after = session.client.schedule.after
        self.gate = None if rate is None else RateGate(rate, after, self.ready)
        if self.gate is not None:
            session.rate_admit, session.rate_settle = self.gate.admit, self.gate.settle
        self.errands = Errands(session, self._go_on, self._finisher.wake_later)
        self._suspect_runs = SuspectRuns(session, self._finisher, self.ready)
        self._refused: set[HeldQueue] = set()  # claimed runs for which there was no thread, no loop

    @property
    def parker(self) -> Parker:
        """What parks messages."""
        return self._finisher.parker

    def ready(self, held: HeldQueue) -> None:
        """Start a run of a queue that has something to hand out, unless enough are under way."""
        messages = held.owned.messages
        if messages.errand_due:
            self.errands.run(held)
        if self.gate is not None and self.gate.holds(held) and not messages.ready_unpaid:
            return
        with held.lock:
            claimed = held.owned.request_run()
        if claimed:
            self._submit(held)

    def _go_on(self, held: HeldQueue) -> None:
        self.ready(held)
        self._reopened(held)

    @abstractmethod
    def interrupt(self, held: HeldQueue) -> None:
        """The queue is lost: stop what works on it, where that is possible."""

    @abstractmethod
    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""

    @abstractmethod
    def abandon(self) -> None:
        """Free what can never end, for what it ran on is gone."""

    @property
    @abstractmethod
    def inside(self) -> bool:
        """True on a thread on which to wait for a handler would be for ever."""

    @property
    def handling(self) -> bool:
        """True if it is a handler that asks."""
        return self.inside

    # --- whether it runs (`EngineWatch`) ---------------------------------------------------------

    @property
    @abstractmethod
    def begun(self) -> int:
        """Another number each time that something it was given has begun."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether something waits to begin for which there is room."""

    @property
    @abstractmethod
    def trouble(self) -> str:
        """Why what waits may not begin, for people."""

    @property
    def stopped(self) -> bool:
        """Whether nothing can begin at this moment, for sure."""
        return False

    @property
    def gone(self) -> str | None:
        """Why nothing can ever begin again; None: it can."""
        return None

    @property
    def thread(self) -> int | None:
        """The identity of the one thread on which all begins; None: there is no such thread."""
        return None

    @abstractmethod
    def nudge(self, *, standing: bool) -> None:
        """Give it something to begin, if nothing else would show that it runs.

        Args:
            standing: it has not run for long, and is given no messages until it does.
        """

    # --- runs ----------------------------------------------------------------------------------

    @abstractmethod
    def _submit(self, held: HeldQueue) -> None:
        """Let a claimed run begin, once there is room for it."""

    def _submit_later(self, held: HeldQueue, error: RuntimeError) -> None:
        """There was no thread, or no loop, to begin on: the run keeps its claim and waits."""
        if held.owned.dropped is not None:
            self._in_line(held)
            return
        held.log.error("run.not_started", error=str(error))
        self._refused.add(held)
        self._session.client.schedule.after(
            self._session.config.suspend, partial(self._submit, held)
        )

    def _in_line(self, held: HeldQueue) -> None:
        """A run that may have been refused before is not any more, or is not needed."""
        if self._refused:
            self._refused.discard(held)

    def _take(self, held: HeldQueue) -> Batch | None:
        if held.owned.messages.errand_due:
            self.errands.run(held)
        if held.owned.suspects.on:
            return self._take_in_turn(held)
        return self._take_next(held)

    def _take_in_turn(self, held: HeldQueue) -> Batch | None:
        """Take the next batch if no other queue tries a suspect; else the run ends until then."""
        if not self._suspect_runs.enter(held):
            with held.lock:
                held.owned.end_run()
            self._suspect_runs.stand_by(held)
            return None
        batch = self._take_next(held)
        if not self._suspect_runs.is_suspect(held, batch):
            self._suspect_runs.leave(held)
        return batch

    def _take_next(self, held: HeldQueue) -> Batch | None:
        gate, size, calls = self.gate, self._session.config.batch_size, held.burst
        if gate is None:
            return self._take_up_to(held, size, calls)
        granted = gate.grant(held, size * calls)
        if not granted:
            batch = self._take_up_to(held, size, 1, paid=False)
            gate.stand_in_line(held)  # not before: it may be called at once
            return batch
        size = min(size, granted)
        batch = self._take_up_to(held, size, granted // size)
        called = batch is not None and batch.began is not None
        gate.settle(granted - (len(batch.messages) if batch is not None and called else 0))
        return batch

    def _take_up_to(
        self, held: HeldQueue, size: int, calls: int, *, paid: bool = True
    ) -> Batch | None:
        with held.lock:
            moment = now()
            batch = held.owned.take(size, moment, calls, paid=paid)
            another = batch is not None and held.owned.request_run()
        if another:
            self._submit(held)
        if batch is not None and held.owned.by_key:
            self.parker.saw(batch.key, moment)
        return batch

    def _end_lane_task(self, held: HeldQueue, batch: Batch) -> None:
        with held.lock:
            paced = held.owned.give_back(batch, now())
        if paced is not None:
            self._finisher.wake_later(held, paced)

    def _failed(self, held: HeldQueue, batch: Batch | None) -> None:
        """End a run that broke down or was cancelled: its lane waits as after a failure.

        It is not the handler's failure but ours, the logging's or the program's; no attempt is
        counted.
        """
        seconds = self._session.config.suspend
        with held.lock:
            held.owned.begin_run()  # a cancelled task may not even have begun
            if batch is not None and held.owned.messages.in_work(batch):
                untried = {message.queue_offset for message in batch.messages}
                wakes = held.owned.finish(
                    batch, Disposition.ROLLBACK, now(), untried=untried, wait=seconds
                )
                seconds = seconds if wakes is None else wakes
            held.owned.end_run()
        self._suspect_runs.break_off(held)
        self._finisher.wake_later(held, seconds)


# --- runs on threads ------------------------------------------------------------------------------


def _nothing() -> None:
    """A task that shows that there is a thread."""


MAX_RUN = 60.0  # seconds a run may go on while nobody waits for its thread (as Java)
FAIR_RUN = 0.1  # seconds it may go on once another queue waits for a thread
YIELD = 0.01  # seconds until a run that yielded is resumed (as Java)


class Worker(Engine):
    """Feeds a handler that blocks. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, when there is something to pull again.
    """

    def __init__(
        self, session: Session, caller: Caller, reopened: Callable[[HeldQueue], None]
    ) -> None:
        super().__init__(session, caller, reopened)
        config = session.config
        self.pool = WorkerPool(session.group, config.min_workers, config.concurrency)

    def interrupt(self, held: HeldQueue) -> None:
        """The queue is lost: a thread cannot be stopped, its handler may look at `context.lost`."""

    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""
        self.errands.close()
        self.pool.close()

    def abandon(self) -> None:
        """Nothing: a thread that began a run ends it."""

    @property
    def inside(self) -> bool:
        """True on a thread that runs handlers."""
        return self.pool.inside

    @property
    def begun(self) -> int:
        """How many tasks have begun."""
        return self.pool.begun

    @property
    def waits(self) -> bool:
        """Whether a run waits, and not all threads that may be are busy."""
        return bool(self._refused) or self.pool.waits

    @property
    def trouble(self) -> str:
        """That there is no thread."""
        return "messages wait for a thread, and the system starts none"

    def nudge(self, *, standing: bool) -> None:
        """Only without messages a thread has to be tried."""
        if standing and not self.pool.waits:
            with suppress(RuntimeError):  # there is still none
                self.pool.submit(_nothing)

    def _submit(self, held: HeldQueue) -> None:
        try:
            self.pool.submit(partial(self._run, held))
        except RuntimeError as error:  # not even one thread can be started
            self._submit_later(held, error)
        else:
            self._in_line(held)

    def _run(self, held: HeldQueue) -> None:
        with held.lock:
            held.owned.begin_run()
        started, batch = now(), None
        try:
            while (batch := self._take(held)) is not None:
                self._work(held, batch)
                moment = now()
                if held.owned.wants_bodies(moment):
                    self._reopened(held)
                if self._must_yield(moment - started) and held.owned.dropped is None:
                    self._session.client.schedule.after(YIELD, partial(self._submit, held))
                    return
        except BaseException:
            self._failed(held, batch)  # the lane must go on
            raise
        if held.owned.dropped is not None:
            self._session.attention()
        elif held.owned.stuck_full:
            held.log.warning("queue.full", hint="answer COMMIT, or nothing more comes")

    def _work(self, held: HeldQueue, batch: Batch) -> None:
        if batch.lane_task is not None:
            self._run_lane_task(held, batch, batch.lane_task)
        elif batch.repeats is not None:
            self._finisher.pass_over(held, batch)
        elif held.sets_aside(batch.key):
            self._finisher.set_aside(held, batch)
        elif not held.owned.suspects.careful:
            self._handle(held, batch)
        elif self._suspect_runs.open(held, batch):
            self._handle(held, batch)
            self._suspect_runs.close(held)

    def _handle(self, held: HeldQueue, batch: Batch) -> None:
        size, statistics = self._session.config.batch_size, self._session.statistics
        if len(batch.messages) <= size:
            called = self._caller.call(held, batch.messages, batch.key)
            batch.began = called.at
            one_call(held, called, size, statistics)
        else:
            with Burst(held, batch, size, statistics) as burst:
                while messages := burst.next_call():
                    burst.called = self._caller.call(held, messages, batch.key)
            called = burst.outcome
        self._finisher.finish(held, batch, called)

    def _run_lane_task(self, held: HeldQueue, batch: Batch, lane_task: LaneTask) -> None:
        with closing(lane_task.steps()) as steps:
            called = None
            while (wanted := next_call(steps, called)) is not None:
                called = self._caller.call(held, wanted.messages, batch.key, wanted.mode)
                batch.began = called.at
                called.count(self._session.statistics)
        self._end_lane_task(held, batch)

    def _must_yield(self, ran: float) -> bool:
        return ran >= MAX_RUN or (ran >= FAIR_RUN and self.pool.crowded)


# --- bursts ---------------------------------------------------------------------------------------
# Taking and finishing a message costs as much as two calls of a handler that does next to nothing.
# So where the last calls were quick and went well, a run takes messages for several calls at once,
# hands them out call by call, and finishes them together. What was handled counts for whoever
# takes the queue's lock meanwhile, as if it were finished (`QueueLock`). The first call that is
# slow, or that answers anything but a plain success, ends the burst; what was not handed out goes
# back untried.
#
# So a burst never commits what a handler kept (manual commit). Only plain successes are counted,
# and such a one (SUCCESS under auto-commit, COMMIT under manual commit) commits everything that
# its lane has in hand. A call that keeps ends the burst, and a lane with something in hand takes
# one call's messages (`Lanes.take`) until it is committed or rolled back.
#
# How many calls is learned by the queue, not by its lanes: it says how quick the handler is and
# how it answers, and a lane is forgotten each time it has nothing left. A wrong number costs time,
# never a message: any lane may have taken too much, and what it was not asked for goes back.
# Handlers in worker processes have no bursts: what comes back from a process always names messages
# (`ConsumeContext.names_some`), and a call of it costs far more than the lock.


LONGEST_BURST = 16
QUICK_BURST = 0.001  # seconds that the calls of a burst may take together


class Burst:
    """The calls for a batch with messages for several; used by one run, as a context.

    After it the batch is narrowed to the messages of the last call, if that was no plain success,
    or to none; `Finisher.finish` does the rest.

    Args:
        held: the queue.
        batch: taken from it.
        size: messages of one call at most.
        statistics: where the calls are counted, those that went well together.

    Attributes:
        called: what the last call came to; set after each.
    """

    __slots__ = (
        "_batch",
        "_calls",
        "_end",
        "_held",
        "_messages",
        "_plain",
        "_seconds",
        "_size",
        "_spent",
        "_statistics",
        "called",
    )

    def __init__(self, held: HeldQueue, batch: Batch, size: int, statistics: Statistics) -> None:
        self._held = held
        self._batch = batch
        self._messages = batch.messages
        self._size = size
        self._statistics = statistics
        self._end = 0
        self._spent = 0.0
        self._calls = self._plain = 0  # of the plain successes: how many, and their messages
        self._seconds = 0.0
        self.called: Called | None = None

    def __enter__(self) -> Self:
        self._held.bursts.add(self._batch)
        return self

    def next_call(self) -> Sequence[ReceivedMessage]:
        """The messages of the next call, whose outcome goes to `called`; none: it is over."""
        start, count = self._end, len(self._messages)
        if start:
            if not self._went_well():
                return ()
            self._batch.done = start
            if start >= count or self._spent >= QUICK_BURST:
                return ()
            if not self._held.owned.hands_out(self._batch, now()):
                return ()
        self._end = min(start + self._size, count)
        return self._messages[start : self._end]

    @property
    def outcome(self) -> Called:
        """What the last call came to."""
        assert self.called is not None, "a batch has messages, so there was a call"
        return self.called

    def _went_well(self) -> bool:
        called = self.outcome
        self._spent += called.seconds
        well = _went_well(called)
        if well and called.kind is ReturnType.SUCCESS:
            self._calls += 1
            self._plain += len(called.messages)
            self._seconds += called.seconds
        else:
            called.count(self._statistics)
        return well

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held, batch, count = self._held, self._batch, len(self._messages)
        if self._calls:
            self._statistics.consumed(
                held.queue.topic,
                self._plain,
                self._seconds,
                ReturnType.SUCCESS,
                now(),
                ok=True,
                calls=self._calls,
            )
        if batch.done < self._end < count or 0 < batch.done < count:
            with held.lock:  # which counts what is done
                if error is None:
                    held.owned.narrow(batch, self._end - batch.done)
        held.bursts.discard(batch)
        well = error is None and batch.done == self._end and self._spent < QUICK_BURST
        _learn(held, count, self._size, well=well)


def one_call(held: HeldQueue, called: Called, size: int, statistics: Statistics) -> None:
    """Count the only call for a batch, as with nearly every key, and learn from it."""
    called.count(statistics)
    well = _went_well(called) and called.seconds < QUICK_BURST
    _learn(held, len(called.messages), size, well=well)


def _went_well(called: Called) -> bool:
    return called.effect is PLAIN_SUCCESS and not called.context.names_some


def _learn(held: HeldQueue, taken: int, size: int, *, well: bool) -> None:
    """Take messages of more calls at once next time, or of one."""
    if not well:
        held.burst = 1
    elif taken >= held.burst * size:
        held.burst = min(2 * held.burst, LONGEST_BURST)


# --- the threads: started on demand, ended when idle ----------------------------------------------
# The standard ThreadPoolExecutor never ends an idle thread; an ordered consumer that once had many
# busy queues would keep all of them. Java: ThreadPoolExecutor with a keep-alive of 60 s. One
# thread at most is being woken at a time; once it has begun, it wakes the next if tasks are left.
# A handler that waits lets the next one begin at once, so nothing is slower; quick ones are all
# done by the first, and the others sleep on: to wake a thread for each queue was a sixth of our
# time.


class WorkerPool:
    """Runs functions on `minimum` to `maximum` daemon threads. Thread-safe.

    Args:
        name: the consumer group; threads are called "orderly-work-<name>-<n>".
        idle: seconds after which an idle thread above the minimum ends.

    Attributes:
        begun: how many tasks have begun.
    """

    def __init__(self, name: str, minimum: int, maximum: int, *, idle: float = 60.0) -> None:
        self._name = name
        self._log = get_logger("orderly.consumer", **where(name))
        self._minimum = minimum
        self._maximum = maximum
        self._idle_timeout = idle
        self._tasks: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._numbers = count(1)
        self._local = threading.local()
        self._threads = 0
        self._idle = 0
        self._waking = False
        self._closed = False
        self.begun = 0

    @property
    def threads(self) -> int:
        """Threads alive now."""
        return self._threads

    @property
    def waits(self) -> bool:
        """True if a task waits although not every thread that may be is busy."""
        return bool(self._tasks) and self._threads - self._idle < self._maximum

    @property
    def crowded(self) -> bool:
        """True if a task waits although every thread is busy: a long run should yield."""
        return len(self._tasks) > self._idle

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task` on some thread; after `close` it is dropped.

        Raises:
            RuntimeError: there is no thread, and the system starts none.
        """
        with self._changed:
            if self._closed:
                return
            self._tasks.append(task)
            self._wake_one()

    def close(self) -> None:
        """Drop waiting tasks and end the threads after their present one; waits for none."""
        with self._changed:
            self._closed = True
            self._tasks.clear()
            self._changed.notify_all()

    def _wake_one(self) -> None:
        if not self._tasks or self._waking:
            return
        if self._idle:
            self._waking = True
            self._changed.notify()
        elif self._threads < self._maximum:
            self._start_thread()

    def _start_thread(self) -> None:
        name = f"orderly-work-{self._name}-{next(self._numbers)}"
        try:
            threading.Thread(target=self._loop, name=name, daemon=True).start()
        except RuntimeError:  # the system has no more threads; those that are there will do it
            if self._threads == 0:
                self._tasks.pop()
                raise
            self._log.warning("thread.not_started", threads=self._threads)
        else:
            self._threads += 1
            self._waking = True

    @property
    def inside(self) -> bool:
        """True on a thread of this pool."""
        return getattr(self._local, "inside", False)

    def _loop(self) -> None:
        self._local.inside = True
        try:
            self._has_woken()
            while (task := self._next_task()) is not None:
                self._run(task)
        except BaseException:  # a log that raises, for one; `_next_task` counts a planned end
            with self._changed:
                self._threads -= 1
            raise

    def _has_woken(self) -> None:
        with self._changed:
            self._waking = False

    def _run(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException:  # noqa: BLE001 - the pool outlives a defect, and sys.exit, in a run
            self._log.exception("run.failed", hint="a defect of orderly: report it")

    def _next_task(self) -> Callable[[], None] | None:
        """Wait for a task; None ends the thread: closed, or idle for long enough."""
        with self._changed:
            self._idle += 1
            try:
                while not self._tasks:
                    in_time = self._closed or self._changed.wait(self._idle_timeout)
                    self._waking = False
                    idle_long = not in_time and not self._tasks
                    if self._closed or (idle_long and self._threads > self._minimum):
                        self._threads -= 1
                        return None
            finally:
                self._idle -= 1
            task = self._tasks.popleft()
            self.begun += 1
            self._wake_one()
            return task
