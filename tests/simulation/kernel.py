"""Virtual time and the tasks that live in it: one OS thread, one seed, no luck.

A task is a greenlet. It runs until it blocks (a lock, a condition, a sleep, an answer); then the
kernel chooses the next one by its random numbers, and only when none can run does the clock jump
to the next moment at which something is due. So a run is a function of its seed.

Tasks belong to a process of the simulation. A process can be paused, as a garbage collector or
SIGSTOP does, and killed, as kill -9 does: its tasks never run again.
"""

import heapq
import itertools
import random
from asyncio import _set_running_loop
from collections.abc import Callable

import greenlet

_LOOK = 0.1  # virtual seconds between two looks at whether a run is over


class Stall(AssertionError):
    """What was to happen did not, in a very long time."""

    kind = "stall"


class Deadlock(Stall):
    """Nothing can run and nothing is due, but the scenario is not over."""


class Process:
    """A process of the simulated world."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused_until = 0.0
        self.dead = False


class Task:
    """One thread of a process."""

    __slots__ = (
        "daemon",
        "done",
        "greenlet",
        "loop",
        "name",
        "process",
        "waiters",
        "wake",
        "woken",
    )

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.greenlet = None
        self.loop = None  # the event loop that runs here: asyncio knows one for each OS thread
        self.done = False
        self.waiters: list[Task] = []
        self.wake = 0  # counts the parkings, so that an old timer does not end a new one
        self.woken = False
        self.daemon = True


class Kernel:
    """Runs tasks and timed events.

    Args:
        seed: of every choice.
        restless: how often (0 to 1) a task that could go on lets another one run at a lock.
    """

    def __init__(self, seed: int, restless: float = 0.1) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0
        self.current: Task | None = None
        self.failure: BaseException | None = None
        self.restless = restless
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], None] | Task, int]] = []
        self._numbers = itertools.count()
        self._hub = greenlet.getcurrent()
        self._stopping = False
        self._tasks: list[Task] = []

    # --- events and tasks ----------------------------------------------------------------------

    def at(self, moment: float, event: Callable[[], None]) -> None:
        """Call `event` at `moment`, outside of any task: it must not block."""
        heapq.heappush(self._timers, (moment, next(self._numbers), event, 0))

    def after(self, delay: float, event: Callable[[], None]) -> None:
        """Call `event` after `delay` seconds, outside of any task."""
        self.at(self.now + delay, event)

    def spawn(self, work: Callable[[], object], name: str, process: Process | None = None) -> Task:
        """Start a task in `process`, or in that of the current task."""
        if process is None:
            process = self.current.process
        task = Task(name, process)
        task.greenlet = greenlet.greenlet(lambda: self._main(task, work), self._hub)
        self._tasks.append(task)
        self._ready.append(task)
        return task

    def _main(self, task: Task, work: Callable[[], object]) -> None:
        try:
            work()
        except greenlet.GreenletExit:
            pass
        except BaseException as error:
            if not self._stopping:
                self.fail(error)
        finally:
            task.done = True
            if not self._stopping:
                for waiter in task.waiters:
                    self.unpark(waiter)

    def fail(self, error: BaseException) -> None:
        """End the run with `error`, also from where the library would catch it."""
        if self.failure is None:
            self.failure = error

    # --- blocking ------------------------------------------------------------------------------

    def park(self, timeout: float | None = None) -> bool:
        """Block the current task until `unpark`, or for `timeout` seconds; was it unparked?"""
        if self._stopping:
            raise greenlet.GreenletExit
        task = self.current
        task.wake += 1
        task.woken = False
        if timeout is not None:
            due = self.now + timeout if timeout > 0 else self.now
            heapq.heappush(self._timers, (due, next(self._numbers), task, task.wake))
        self._hub.switch()
        return task.woken

    def unpark(self, task: Task) -> None:
        """Let a parked task go on; without effect on one that is not parked."""
        if task.woken or task.done:
            return
        task.woken = True
        task.wake += 1
        self._ready.append(task)

    def sleep(self, seconds: float) -> None:
        """Block the current task for `seconds`."""
        self.park(seconds)

    def breathe(self) -> None:
        """Let another task run; called now and then at a lock."""
        if not self._stopping:
            self._ready.append(self.current)
            self.current.wake += 1
            self._hub.switch()
        if self._stopping:
            raise greenlet.GreenletExit

    @property
    def stopping(self) -> bool:
        """Whether the run is over: what still runs is to end at once."""
        return self._stopping

    # --- processes -----------------------------------------------------------------------------

    def pause(self, process: Process, seconds: float) -> None:
        """Stop all tasks of `process` where they are; time goes on."""
        process.paused_until = max(process.paused_until, self.now + seconds)

    def kill(self, process: Process) -> None:
        """End `process` at once: none of its tasks runs again."""
        process.dead = True

    def end(self, task: Task) -> None:
        """End one task where it is, as a child process that is killed: it never runs again."""
        if not task.done:
            task.done = True
            for waiter in task.waiters:
                self.unpark(waiter)

    # --- the loop ------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool], limit: float) -> None:
        """Run until `until()` holds; it is looked at every so often, when no task can run.

        Raises:
            Stall: it does not hold within `limit` seconds of virtual time.
            BaseException: what a task raised, or what `fail` was given.
        """
        deadline, look = self.now + limit, self.now
        while True:
            self._run_ready()
            if self.failure is not None:
                raise self.failure
            if self.now >= look or not self._timers:
                if until():
                    return
                look = self.now + _LOOK
            self._pass_time(deadline)

    def _run_ready(self) -> None:
        ready, below = self._ready, self.random.random
        while ready and self.failure is None:
            if len(ready) > 1:
                place = int(below() * len(ready))
                ready[place], ready[-1] = ready[-1], ready[place]
            self._resume(ready.pop())

    def _pass_time(self, deadline: float) -> None:
        if not self._timers:
            raise Deadlock(f"nothing is due at {self.now:.3f}, and it is not over")
        moment, _, event, wake = heapq.heappop(self._timers)
        if wake and (event.wake != wake or event.done):
            return  # it went on before its time was up
        if moment > deadline:
            raise Stall(f"not over at {moment:.0f} s of virtual time")
        if moment > self.now:
            self.now = moment
        if wake:
            event.wake += 1
            self._ready.append(event)
        else:
            event()

    def _resume(self, task: Task) -> None:
        process = task.process
        if process.dead or task.done:
            return
        if process.paused_until > self.now:
            self.at(process.paused_until, lambda: self._ready.append(task))
            return
        self.current = task
        if task.loop is None:
            task.greenlet.switch()
        else:
            _set_running_loop(task.loop)
            task.greenlet.switch()
        if task.loop is not None:
            _set_running_loop(None)
        self.current = None

    def stop(self) -> None:
        """End every task that is left; nothing of this kernel runs afterwards."""
        self._stopping = True
        for task in self._tasks:
            if task.greenlet is not None and not task.greenlet.dead:
                self.current = task
                _set_running_loop(task.loop)
                task.greenlet.throw(greenlet.GreenletExit)
                _set_running_loop(None)
        self.current = None
        self._tasks.clear()
        self._timers.clear()
        self._ready.clear()
