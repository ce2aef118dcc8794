"""From start to end of a native producer or consumer.

librocketmq must be shut down before the process exits: its threads would run on while what they
use is destroyed. Nor may it be shut down while a call of it runs.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from orderly.errors import LifecycleError, OrderlyError

_running: dict[int, Life] = {}


class Life:
    """Thread-safe.

    Args:
        what: "producer" or "consumer", for errors.
        start, end: begin and end the work; called at most once each.
    """

    def __init__(self, what: str, start: Callable[[], None], end: Callable[[], None]) -> None:
        self._what = what
        self._start = start
        self._end = end
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._started = False
        self._closed = False
        self._ended = False
        self._calls = 0

    def begin(self) -> None:
        """Start; from now on the process' exit ends it, too.

        Raises:
            LifecycleError: started or closed before, or made by the parent of a forked process.
        """
        self._check_process()
        with self._changed:
            if self._started or self._closed:
                raise LifecycleError(f"a {self._what} is started once; make a new one")
            self._start()
            self._started = True
        _running[id(self)] = self

    def finish(self) -> None:
        """Wait for the calls that run, then end. Idempotent; in a forked child without effect.

        It returns when the end is over, whoever began it: the process must not exit before. After
        a Ctrl-C while it waits, it can be called again.
        """
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._calls)  # each has its own time-out, in C
            if self._started and not self._ended:
                self._ended = True
                self._end()
        _running.pop(id(self), None)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Run a call of the library, which `finish` waits for.

        Raises:
            LifecycleError: it does not run.
        """
        with self._changed:
            self.check()
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def check(self) -> None:
        """Raise LifecycleError unless it runs."""
        self._check_process()
        if self._closed or not self._started:
            state = "is closed; make a new one" if self._closed else "is not started"
            raise LifecycleError(f"the {self._what} {state}; use it in a with statement")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise LifecycleError(
                f"the {self._what} was made before this process was forked, and its threads are"
                " the parent's; make a new one here"
            )


@atexit.register
def _finish_all() -> None:
    for life in reversed(list(_running.values())):  # what came later may use what came before
        with suppress(OrderlyError):
            life.finish()
