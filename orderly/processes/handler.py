"""`executor="process"`: a handler that runs in worker processes, for work that needs the CPU.

Each thread that calls it has a worker process of its own, so a process that dies takes exactly one
call with it. The threads wait, without the interpreter's lock, while the processes work.
"""

from __future__ import annotations

import multiprocessing
import threading
import weakref
from collections.abc import Sequence
from itertools import count

from orderly.errors import ConfigError, HandlerHung, LifecycleError, WorkerDied
from orderly.log import get_logger, key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.outcomes import Answer
from orderly.processes.importable import pickled
from orderly.processes.worker import NAME, WorkerProcess


class ProcessHandler:
    """A handler that calls another one in worker processes. Thread-safe.

    A process starts with its thread's first call and ends with its thread, at `close`, and when
    the parent is gone in any way. It starts as `spawn` does: a new interpreter that imports the
    handler's module (and runs the main module again, up to `if __name__ == "__main__":`). It shares
    stdout and stderr and inherits no configuration of logging.

    Args:
        handler: a plain function (messages, context) -> answer at the top level of a module.
        group: the consumer group, for names and events.

    Raises:
        ConfigError: other processes cannot import `handler`.
    """

    def __init__(self, handler: Handler | AsyncHandler, group: str) -> None:
        self._pickled = pickled(handler)
        self._group = group
        self._log = get_logger("orderly.consumer", **where(group))
        self._numbers = count(1)
        self._local = threading.local()
        self._workers: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
        """Call the handler in this thread's process; `context` gets what the handler set.

        Raises:
            BaseException: what the handler raised, with its traceback as a note.
            WorkerDied: the process ended before it answered; the next call starts another.
            HandlerHung: it did because of `kill_call`.
            NotPicklable: the answer or the error cannot come out of the process.
            LifecycleError: closed.
            ConfigError: as `check_place`.
        """
        worker = self._claim(context)
        try:
            # Whatever is no answer to this mypy cannot see: the consumer judges it.
            return worker.call(messages, context)  # type: ignore[no-any-return]
        except WorkerDied as error:
            at = where(self._group, context.message_queue, messages[0])
            at |= {"attempt": context.attempt, "redact": context.redact_keys} | (
                {} if context.key is None else {"key": key_text(context.key)}
            )
            self._log.error("worker.died", **at, exit_code=error.exit_code)
            if worker.hung:
                raise HandlerHung("the handler ran too long; its process was killed") from error
            raise
        finally:
            self._give_back(worker)

    @staticmethod
    def check_place() -> None:
        """Raise ConfigError in a process that cannot start workers, for example one of them.

        They import the handler's module, where consumers may be made, but must not be started.
        """
        process = multiprocessing.current_process()
        if process.name.startswith(NAME):
            raise ConfigError(
                "a worker process imported the main module and came to start a consumer there: put"
                ' what starts the consumer under `if __name__ == "__main__":`'
            )
        if process.daemon:
            raise ConfigError(
                "a daemonic process cannot start worker processes: start it with daemon=False"
            )

    def close(self) -> None:
        """End the idle processes, in a second at most; busy ones end after their call. Idempotent.

        It ends no call: that is what `kill` is for, once the deadline of the close is over.
        """
        with self._lock:
            self._closed = True
            idle = [worker for worker in self._workers if worker.serving is None]
        for worker in idle:
            worker.hang_up()  # all at once, before any is waited for
        for worker in idle:
            worker.end()

    def kill(self) -> None:
        """End all processes at once. Calls that run raise WorkerDied; their messages come again."""
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.kill()

    def kill_call(self, context: ConsumeContext) -> None:
        """End the process of one call, if that still runs: it raises HandlerHung."""
        with self._lock:  # the call cannot give its process back meanwhile
            for worker in self._workers:
                if worker.serving is context:
                    worker.hung = True
                    worker.kill()

    def _claim(self, context: ConsumeContext) -> WorkerProcess:
        """This thread's process, a new one if it has none."""
        with self._lock:
            if self._closed:
                raise LifecycleError(f"the processes of group {self._group} are closed")
            seat: _Seat | None = getattr(self._local, "seat", None)
            if seat is None or not seat.worker.usable:  # it may have died without a call, too
                self.check_place()
                seat = self._local.seat = _Seat(self._new_worker())
            seat.worker.serving = context
            return seat.worker

    def _new_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self._pickled, f"{self._group}-{next(self._numbers)}")
        self._workers.add(worker)
        return worker

    def _give_back(self, worker: WorkerProcess) -> None:
        with self._lock:
            worker.serving = None
            closed = self._closed
        if closed:
            worker.end()


class _Seat:
    """A thread's process. It is the thread's alone, so it is collected when the thread ends.

    The process itself is no sign of that: an exception's traceback may hold it for longer.
    """

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        weakref.finalize(self, worker.end).atexit = False  # multiprocessing sees to the exit
