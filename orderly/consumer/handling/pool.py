"""Threads that run handlers: started on demand, ended when idle.

The standard ThreadPoolExecutor never ends an idle thread; an ordered consumer that once had many
busy queues would keep all of them. Java: ThreadPoolExecutor with a keep-alive of 60 s.

One thread at most is being woken at a time; once it has begun, it wakes the next if tasks are left.
A handler that waits lets the next one begin at once, so nothing is slower; quick ones are all done
by the first, and the others sleep on: to wake a thread for each queue was a sixth of our time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import count

from orderly.log import get_logger, where


class WorkerPool:
    """Runs functions on `minimum` to `maximum` daemon threads. Thread-safe.

    Args:
        name: the consumer group; threads are called "orderly-work-<name>-<n>".
        idle: seconds after which an idle thread above the minimum ends.
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

    @property
    def threads(self) -> int:
        """Threads alive now."""
        return self._threads

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
            self._wake_one()
            return task
