"""The end of the process: what is still open then is closed, in a few seconds, and named.

It is done when Python calls the functions of `atexit`, the last registered first: the program's
other threads have ended by then (but for daemons), and its own functions may still have sent and
closed. From then on no thread can be started (Python 3.12), so whatever is open has one from its
beginning on, which waits for the end: one broker that hangs does not hold up everybody.

Nothing here runs where Python does not end by itself: `os._exit`, a signal that nobody handles.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable

PATIENCE = 6.0  # seconds for all that is open, together
FOR_HANDLERS = 3.0  # of them, for handlers that run; then what they send with is closed, too
FOR_SENDS = 2.0  # of what is left, for messages that are under way
_STEP = 0.05


class Ending:
    """The end of one thing that is open. Thread-safe.

    Args:
        name: the thread is called "orderly-at-exit-<name>".
        close: ends it, in `PATIENCE` if it can; on the thread.
        tell: logs what is left where that took longer.
        last: whether others use it while they end.

    Attributes:
        ended: set once it is closed.
    """

    def __init__(
        self,
        name: str,
        close: Callable[[], object],
        tell: Callable[[], object],
        *,
        last: bool = False,
    ) -> None:
        self.tell = tell
        self.last = last
        self._name = name
        self._close = close
        self._at_exit = False
        self._go_on = threading.Event()
        self.ended = threading.Event()

    def open(self) -> None:
        """Note that it is open from now on; once.

        Raises:
            RuntimeError: the system has no more threads.
        """
        name = f"orderly-at-exit-{self._name}"
        threading.Thread(target=self._wait, name=name, daemon=True).start()
        _OPEN[self] = None
        if os.getpid() not in _CHILDREN and _is_child():
            from multiprocessing.util import Finalize  # noqa: PLC0415 - only there

            _CHILDREN.add(os.getpid())
            Finalize(None, close_all, exitpriority=100)

    def done(self) -> None:
        """Note that it is closed. Idempotent, also for what was never open."""
        _OPEN.pop(self, None)
        self._go_on.set()

    def begin(self) -> None:
        """Have it closed."""
        self._at_exit = True
        self._go_on.set()

    def wait(self, seconds: float) -> float:
        """Wait for what was begun; returns how many of the seconds are left.

        In small steps: what passes while this process stands still does not count.
        """
        while seconds > 0 and not self.ended.wait(_STEP):
            seconds -= _STEP
        return seconds

    def _wait(self) -> None:
        self._go_on.wait()
        if self._at_exit:
            self._close()
        self.ended.set()  # not after an error: what is left is told then


_OPEN: dict[Ending, None] = {}
_CHILDREN: set[int] = set()  # this process, if multiprocessing ends it, without a word to `atexit`


def _is_child() -> bool:
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


@atexit.register
def close_all() -> None:
    """Close what is open, and wait for that; again: nothing."""
    opened = list(_OPEN)
    first = [ending for ending in opened if not ending.last]
    last = [ending for ending in opened if ending.last]
    for ending in first:
        ending.begin()
    left = FOR_HANDLERS
    for ending in first:
        left = ending.wait(left)
    for ending in last:
        ending.begin()
    left += PATIENCE - FOR_HANDLERS
    for ending in opened:
        left = ending.wait(left)
        if not ending.ended.is_set():
            ending.tell()
    _OPEN.clear()


os.register_at_fork(after_in_child=_OPEN.clear)  # what is open is the parent's
