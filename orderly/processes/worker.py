"""The parent's end of one worker process: its start, its calls, its death.

concurrent.futures.ProcessPoolExecutor(max_workers=1) would be the library's answer. It takes three
times as long for a bare call (0.3 against 0.1 ms with a message of 1 KiB), cannot tell how its
process ended, leaves it behind when the parent is killed, and has no way to reach a running call.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

from orderly.errors import WorkerDied
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext
from orderly.processes.calls import (
    TOLD,
    Answered,
    Call,
    Extended,
    ExtensionAsked,
    News,
    Packed,
    packed,
    packed_error,
    set_state,
    state_of,
)
from orderly.processes.child import GLANCE, serve

NAME = "orderly-process-"
PATIENCE = 1.0  # seconds an idle worker may take to end

_SPAWN = multiprocessing.get_context("spawn")  # fork would copy locks that other threads hold
_CHILDREN = threading.RLock()  # multiprocessing's own list of children has no lock


class WorkerProcess:
    """One process that runs one call at a time. Used by one thread; end and kill by any.

    Attributes:
        serving: the context of the call it runs, or is to run; None: it is idle.
        hung: it was killed because that call ran too long.

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
        self._owner = os.getpid()
        self._numbers = count(1)
        self._pipe, theirs = _SPAWN.Pipe()
        # daemon: multiprocessing does not wait for its handler when the parent exits.
        self._process = _SPAWN.Process(
            target=serve, args=(theirs, pickled), name=NAME + name, daemon=True
        )
        with theirs, _CHILDREN, _signals_blocked():
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
        state = packed(state_of(context, TOLD), "the context with the messages' key")
        try:
            answered = self._exchange(messages, context, state)
        except (EOFError, OSError) as error:
            raise _died(self.end(), messages) from error
        except BaseException:
            self.end(patience=0)  # what it may still say must not answer another call
            raise
        set_state(context, answered.context.unpack())
        return answered.outcome.unpack()

    def hang_up(self) -> None:
        """Let an idle process end, without waiting for it."""
        with _CHILDREN:
            self._pipe.close()

    def end(self, patience: float = PATIENCE) -> int | None:
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
            exit_code = self._exit_code(PATIENCE)
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
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext, state: Packed
    ) -> Answered:
        told = News(context.deadline, context.lost.is_set())
        number = next(self._numbers)
        owner = context.token, context.generation
        self._pipe.send(Call(number, tuple(messages), state, *owner, told))
        while not isinstance(said := self._hear(), Answered):
            if isinstance(said, ExtensionAsked):
                self._pipe.send(_extended(context))
            elif (news := News(context.deadline, context.lost.is_set())) != told:
                self._pipe.send(told := news)
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
    """At the exit, before multiprocessing sends them the SIGTERM that they ignore, and waits."""
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
