"""An asyncio event loop that lives on a kernel: its time is virtual, and it waits as a task does.

Everything of asyncio above the selector is real. All loops of a simulation are on one OS thread, so
the kernel tells asyncio at each change of tasks which of them is running.
"""

from asyncio import BaseEventLoop, _set_running_loop, all_tasks
from contextlib import suppress

from greenlet import GreenletExit


class KernelLoop(BaseEventLoop):
    """Runs on the task that calls `run_forever`; any task may use `call_soon_threadsafe`.

    Args:
        kernel: whose time it is.
    """

    def __init__(self, kernel):
        super().__init__()
        self._kernel = kernel
        self._selector = _Selector(kernel)

    def time(self):
        return self._kernel.now

    def run_forever(self):
        """As the base class does, without its hooks for asynchronous generators, one a thread."""
        self._check_closed()
        self._check_running()
        task = self._kernel.current
        task.loop, self._thread_id = self, id(task)
        _set_running_loop(self)
        try:
            self._run_once()
            while not self._stopping:
                self._run_once()
        finally:
            self._stopping, self._thread_id, task.loop = False, None, None
            _set_running_loop(None)
            if self._kernel.stopping:
                self._throw_away()

    def _throw_away(self):
        """End what still runs when the run is over, before the garbage collector comes to it."""
        for task in all_tasks(self):
            with suppress(BaseException):
                task.get_coro().close()

    def call_exception_handler(self, context):
        """What nobody handles ends the run; not what the end of a process leaves behind."""
        error = context.get("exception")
        if error is not None and not self._kernel.stopping and not isinstance(error, GreenletExit):
            self._kernel.fail(error)

    def _write_to_self(self):
        self._selector.wake()

    def _process_events(self, events):
        """There are none: nothing here has a file number."""

    def __del__(self):
        """A process that was killed leaves its loop as it is."""


class _Selector:
    """Waits for time to pass, or for `wake`."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._waiting = None
        self._woken = False

    def select(self, timeout):
        kernel = self._kernel
        if kernel.stopping:
            raise GreenletExit
        if self._woken or timeout == 0:
            if kernel.random.random() < kernel.restless:
                kernel.breathe()
        else:
            self._waiting = kernel.current
            kernel.park(timeout)
            self._waiting = None
        self._woken = False
        return ()

    def wake(self):
        self._woken = True
        if self._waiting is not None:
            self._kernel.unpark(self._waiting)
