"""`executor="process"`: a handler that runs in worker processes, for work that needs the CPU.

Each thread that calls it has a worker process of its own, so a process that dies takes exactly one
call with it. The threads wait, without the interpreter's lock, while the processes work.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

from orderly.at_exit import close_all
from orderly.errors import ConfigError, HandlerHung, LifecycleError, WorkerDied
from orderly.log import get_logger, key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.blame import name_untried
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.results import Answer
from orderly.processes.child import GLANCE, serve
from orderly.processes.messages import (
    SENT,
    Answered,
    Extended,
    ExtensionAsked,
    Notes,
    OwnershipNews,
    Packed,
    WorkerCall,
    packed,
    packed_error,
    set_state,
    state_of,
)


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
        try:
            worker = self._claim(context)
        except BaseException:
            _name_all_untried(messages, context)
            raise
        try:
            # mypy cannot see a wrong answer to this: the consumer judges it.
            return worker.call(messages, context)  # type: ignore[no-any-return]
        except WorkerDied as error:
            if worker.begun:
                name_untried(messages, context)
            else:
                _name_all_untried(messages, context)
            self._log_death(error, messages, context)
            if worker.hung:
                raise HandlerHung("the handler ran too long; its process was killed") from error
            raise
        finally:
            self._give_back(worker)

    def _log_death(
        self, error: WorkerDied, messages: Sequence[ReceivedMessage], context: ConsumeContext
    ) -> None:
        message = next(m for m in messages if m.queue_offset == error.offset)
        at = where(self._group, context.message_queue, message)
        at |= {"attempt": message.reconsume_times + 1, "redact": context.redact_keys} | (
            {} if context.key is None else {"key": key_text(context.key)}
        )
        self._log.error("worker.died", **at, exit_code=error.exit_code)

    @staticmethod
    def check_place() -> None:
        """Raise ConfigError in a process that cannot start workers, for example one of them.

        They import the handler's module, where consumers may be made, but must not be started.
        """
        process = multiprocessing.current_process()
        if process.name.startswith(PROCESS_NAME):
            raise ConfigError(
                "a worker process imported the main module and would start a consumer there: put"
                ' the code that starts the consumer under `if __name__ == "__main__":`'
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


def _name_all_untried(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
    """The handler was not called."""
    for message in messages:
        context.not_tried(message)


class _Seat:
    """A thread's process. It is the thread's alone, so it is collected when the thread ends.

    The process itself is no sign of that: an exception's traceback may hold it for longer.
    """

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        weakref.finalize(self, worker.end).atexit = False  # multiprocessing sees to the exit


# --- one worker process, as its parent sees it: its start, its calls, its death -------------------
# concurrent.futures.ProcessPoolExecutor(max_workers=1) would be the library's answer. It takes
# three times as long for a bare call (0.3 against 0.1 ms with a message of 1 KiB), cannot say how
# its process ended, leaves it behind when the parent is killed, and has no way to reach a running
# call.


PROCESS_NAME = "orderly-process-"
END_PATIENCE = 1.0  # seconds an idle worker may take to end

_SPAWN = multiprocessing.get_context("spawn")  # fork would copy locks that other threads hold
_CHILDREN = threading.RLock()  # multiprocessing's own list of children has no lock


class WorkerProcess:
    """One process that runs one call at a time. Used by one thread; end and kill by any.

    Attributes:
        serving: the context of the call it runs, or is to run; None: it is idle.
        hung: it was killed because that call ran too long.
        begun: it has come as far as to run calls.

    Args:
        pickled: the handler.
        name: of the process, after "orderly-process-".

    Raises:
        OSError: the system has no room for another process.
    """

    def __init__(self, pickled: bytes, name: str) -> None:
        self.serving: ConsumeContext | None = None
        self.hung = False
        self.ended = False
        self.begun = False
        self._owner = os.getpid()
        self._numbers = count(1)
        self._pipe, theirs = _SPAWN.Pipe()
        notes, told = _SPAWN.Pipe(duplex=False)
        self._notes = Notes(notes)
        # daemon: multiprocessing does not wait for its handler when the parent exits.
        self._process = _SPAWN.Process(
            target=serve, args=(theirs, told, pickled), name=PROCESS_NAME + name, daemon=True
        )
        with theirs, told, _CHILDREN, _signals_blocked():
            self._process.start()
            _RUNNING.add(self)

    @property
    def usable(self) -> bool:
        """False once the process is ended or dead, or about to be."""
        with _CHILDREN:
            return not self.ended and not self.hung and self._process.exitcode is None

    def call(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Any:
        """Call the handler there, and set in `context` what it set.

        Returns:
            Its answer.

        Raises:
            BaseException: what the handler raised.
            NotPicklable: its answer or error, or the context's key, cannot be pickled.
            WorkerDied: the process ended first.
        """
        state = packed(state_of(context, SENT), "the context with the messages' key")
        number = next(self._numbers)
        try:
            answered = self._exchange(number, messages, context, state)
        except (EOFError, OSError) as error:
            exit_code = self.end()
            self.begun, named = self._notes.last(number, self.begun)
            done = {messages[place].queue_offset for place in named}
            context.finished.update(done)
            left = [m for m in messages if m.queue_offset not in done]
            raise _died(exit_code, left or messages) from error
        except BaseException:
            self.end(patience=0)  # what it may still say must not answer another call
            raise
        self.begun = True
        set_state(context, answered.context.unpack())
        if context.finished:
            self._notes.forget()
        return answered.outcome.unpack()

    def hang_up(self) -> None:
        """Let an idle process end, without waiting for it."""
        with _CHILDREN:
            self._pipe.close()

    def end(self, patience: float = END_PATIENCE) -> int | None:
        """End the process, after `patience` seconds by force. Only the first call does anything.

        Returns:
            Its exit code (below 0: a signal's number), None if unknown.
        """
        if os.getpid() != self._owner:  # a fork of the parent: the process is not its child
            return None
        with _CHILDREN:
            if self.ended:
                return None
            self.ended = True
            self._pipe.close()
        exit_code = self._exit_code(patience)
        if exit_code is None:
            with _CHILDREN:
                self._process.kill()
            exit_code = self._exit_code(END_PATIENCE)
        return exit_code

    def kill(self) -> None:
        """End the process at once; a call that runs raises WorkerDied."""
        with _CHILDREN:
            if not self.ended:
                self._process.kill()

    def _exit_code(self, patience: float) -> int | None:
        """Wait for the end of the process; None if it did not end in time."""
        deadline = monotonic() + patience
        wait([self._process.sentinel], patience)
        # The sentinel is a file of the process: it may have closed that, and live on. `join` with
        # more than 0 seconds would then wait for ever.
        while True:
            with _CHILDREN:
                self._process.join(0)
                exit_code = self._process.exitcode
            if exit_code is not None or monotonic() >= deadline:
                return exit_code
            sleep(0.001)

    def _exchange(
        self,
        number: int,
        messages: Sequence[ReceivedMessage],
        context: ConsumeContext,
        state: Packed,
    ) -> Answered:
        sent = OwnershipNews(context.deadline, context.lost.is_set())
        owner = context.token, context.generation
        self._pipe.send(WorkerCall(number, tuple(messages), state, *owner, sent))
        while not isinstance(said := self._hear(), Answered):
            if isinstance(said, ExtensionAsked):
                self._pipe.send(_extended(context))
            elif (news := OwnershipNews(context.deadline, context.lost.is_set())) != sent:
                self._pipe.send(sent := news)
        if said.number != number:  # a process the handler forked answered, too
            raise EOFError(f"answered call {said.number} instead of {number}")
        return said

    def _hear(self) -> object:
        """Return what the worker says, or None after a while without a word.

        Raises:
            EOFError, OSError: it is dead.
        """
        ready = wait([self._pipe, self._process.sentinel], GLANCE)
        if self._pipe in ready:
            return self._pipe.recv()
        if ready:
            raise EOFError("the process ended")
        return None


def _extended(context: ConsumeContext) -> Extended:
    try:
        return Extended(packed(context.extend(), "the deadline"))
    except Exception as error:  # noqa: BLE001 - it is raised again where it was asked for
        return Extended(packed_error(error))


_RUNNING: WeakSet[WorkerProcess] = WeakSet()


def _kill_all() -> None:
    """At the exit, before multiprocessing sends them the SIGTERM that they ignore, and waits.

    First the consumers end: a worker that is killed under its handler would count as a death.
    """
    close_all()
    with _CHILDREN:
        for worker in list(_RUNNING):
            worker.kill()


Finalize(None, _kill_all, exitpriority=0)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Keep signals from a process that starts until it ignores them: it inherits the mask."""
    resource_tracker.ensure_running()  # its start would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _died(exit_code: int | None, messages: Sequence[ReceivedMessage]) -> WorkerDied:
    queue, offset = messages[0].queue, messages[0].queue_offset
    return WorkerDied(
        f"the worker process {_way(exit_code)} while it handled offset {offset} of {queue};"
        " the message comes again. If this repeats, look for a crash in native code, os._exit,"
        " missing memory, or an import of the main module that fails (see stderr)",
        exit_code=exit_code,
        offset=offset,
    )


def _way(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended in an unknown way"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    with_name = {int(known): known.name for known in signal.Signals}
    return f"was ended by {with_name.get(-exit_code, f'signal {-exit_code}')}"


# --- the check of the handler: worker processes have to find it by its name -----------------------
# A worker process is a new interpreter. It gets the handler as `pickle` writes a function: the
# name of its module and its own, which the worker imports.


_WHAT_TO_DO = "with executor='process' pass a plain function from the top level of a module"


def pickled(handler: object) -> bytes:
    """Return `handler` as bytes from which a worker process gets it again.

    Raises:
        ConfigError: a lambda, a nested or async function, something of an interactive session, or
            a method or object that cannot be pickled.
    """
    if not callable(handler):
        raise ConfigError(f"the handler must be callable, not {type(handler).__name__}")
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    if any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__))):
        raise ConfigError(f"{name} is async; {_WHAT_TO_DO}")
    if "<" in name:  # "<lambda>", "outer.<locals>.inner"
        raise ConfigError(f"{name} has no name a worker process could import; {_WHAT_TO_DO}")
    try:
        data = pickle.dumps(handler)
    except Exception as error:  # pickle runs code of the user's classes
        raise ConfigError(f"{name} cannot be pickled ({error}); {_WHAT_TO_DO}") from error
    if b"__main__" in data and not _main_can_be_imported():
        raise ConfigError(f"worker processes cannot import {name} from __main__; {_WHAT_TO_DO}")
    return data


def _main_can_be_imported() -> bool:
    """True if a spawned process runs our main module again, under the name `__mp_main__`.

    It does for a script and for `python -m module`, not for a package's __main__.py (rules of
    multiprocessing.spawn), and an interactive session has no file to run.
    """
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name).rpartition(".")[2] != "__main__"
    file = getattr(main, "__file__", None)
    return file is not None and Path(file).is_file()
