"""What runs inside a worker process: one call of the handler after another.

The handler has the main thread, as C libraries and `signal` expect. There is no reader thread that
would cost each call a change of threads: the context looks into the pipe when the handler asks it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from multiprocessing.connection import Connection, wait
from time import monotonic

from orderly.errors import LockLost
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext, Handler
from orderly.processes.messages import (
    SET_BY_HANDLER,
    Answered,
    Extended,
    ExtensionAsked,
    NoteTaker,
    OwnershipNews,
    Packed,
    WorkerCall,
    packed,
    packed_error,
    set_state,
    state_of,
)

GLANCE = 0.2  # seconds between looks: of the parent at its queue, of a waiting thread here


def serve(pipe: Connection, told: Connection, pickled: bytes) -> None:
    """Run calls until the parent hangs up: the target of a worker process.

    Args:
        pipe: to the parent.
        told: to it as well, for notes.
        pickled: the handler; loaded with the first call, so that a failure is that call's error.
    """
    _settle(pipe)
    load: Callable[[], Handler] = cache(partial(pickle.loads, pickled))
    notes = NoteTaker(told)
    notes.begun()
    with suppress(EOFError, OSError):  # the parent hung up, or is gone
        while True:
            said = pipe.recv()
            if isinstance(said, WorkerCall):  # else it came too late for the last call
                _run(pipe, notes, said, load)


def _settle(pipe: Connection) -> None:
    # Both go to the whole process group (Ctrl-C, systemd): the parent ends us, after our call.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not SIG_IGN, which programs that the handler starts would inherit: they could not be ended.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    os.set_inheritable(pipe.fileno(), False)  # programs that the handler starts must not hold it
    threading.Thread(target=_end_with_parent, name="orderly-parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """End this process, in the middle of its work, once the parent is gone.

    The broker gives the queue to another member soon, so a handler must not go on for long.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(pipe: Connection, notes: NoteTaker, call: WorkerCall, load: Callable[[], Handler]) -> None:
    ownership = ParentOwnership(pipe, call)
    context = NotedContext(call.messages[0].queue, ownership=ownership)
    context.note = _noting(notes, call)
    try:
        set_state(context, call.context.unpack())
        outcome = packed(load()(call.messages, context), "the answer")
    except BaseException as error:  # noqa: BLE001 - sys.exit in a handler is a failure too
        outcome = packed_error(error)
    changed = packed(state_of(context, SET_BY_HANDLER), "what the handler set in its context")
    ownership.end(outcome, changed)


class NotedContext(ConsumeContext):
    """A context of which the parent knows at once what is done, whatever becomes of this process.

    Attributes:
        note: called for each message that is named done.
    """

    note: Callable[[ReceivedMessage], None]

    def done(self, message: ReceivedMessage) -> None:
        """As `ConsumeContext.done`."""
        super().done(message)
        self.note(message)


def _noting(notes: NoteTaker, call: WorkerCall) -> Callable[[ReceivedMessage], None]:
    places = {message.queue_offset: place for place, message in enumerate(call.messages)}

    def note(message: ReceivedMessage) -> None:
        place = places.pop(message.queue_offset, None)
        if place is not None:
            notes.done(call.number, place)

    return note


class ParentOwnership:
    """The parent's hold on the queue, for the time of one call. Thread-safe.

    Args:
        pipe: to the parent; while the call runs, nothing but this object uses it.
        call: what the parent asked for.
    """

    def __init__(self, pipe: Connection, call: WorkerCall) -> None:
        self.token = call.token
        self._generation = call.generation
        self.lost = LostFlag(self)
        self.over = False
        self._pipe = pipe
        self._number = call.number
        self._news = call.news
        self._extended: Packed | None = None
        self._lock = threading.Lock()
        self._asking = threading.Lock()

    def generation_of(self, key: Hashable | None, replayed: bool) -> int:  # noqa: ARG002
        """As `ConsumeContext.generation`: a call has messages of one."""
        return self._generation

    @property
    def deadline(self) -> float:
        """As `ConsumeContext.deadline`; the parent sends a renewal within 0.2 s."""
        return self.hear().deadline

    def extend(self) -> float:
        """As `ConsumeContext.extend`: the parent does it."""
        with self._asking:
            self._extended = None
            with self._lock:
                if not self.over:
                    self._pipe.send(ExtensionAsked())
            while self._extended is None and not self.over:
                self.hear(GLANCE)
            if self._extended is None:
                raise LockLost("the call is over or its consumer is gone: stop working on it")
            try:
                deadline: float = self._extended.unpack()
            except LockLost:
                self._news = replace(self._news, lost=True)
                raise
            self._news = replace(self._news, deadline=deadline)
            return deadline

    def hear(self, seconds: float = 0.0) -> OwnershipNews:
        """Take in what the parent said meanwhile; wait up to `seconds` for the first of it."""
        if not self.over and wait([self._pipe], seconds):
            with self._lock:
                self._take_in()
        return self._news

    def _take_in(self) -> None:
        try:
            while not self.over and self._pipe.poll():
                said = self._pipe.recv()
                if isinstance(said, Extended):
                    self._extended = said.outcome
                else:
                    self._news = said
        except (EOFError, OSError):  # the parent is gone, and so will we be
            self.over = True
            self._news = replace(self._news, lost=True)

    def end(self, outcome: Packed, context: Packed) -> None:
        """Answer the call. What uses this object afterwards leaves the pipe alone."""
        with self._lock:
            self.over = True
            self._pipe.send(Answered(self._number, outcome, context))


class LostFlag:
    """Whether the queue was lost, asked as a threading.Event is. Thread-safe."""

    def __init__(self, ownership: ParentOwnership) -> None:
        self._ownership = ownership

    def is_set(self) -> bool:
        """True once the queue is no longer ours; the parent says so within 0.2 s."""
        return self._ownership.hear().lost

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds for it (None: as long as the call runs)."""
        end = float("inf") if timeout is None else monotonic() + timeout
        # In steps, as another thread may take in the news that this one waits for.
        while not self.is_set() and not self._ownership.over and (left := end - monotonic()) > 0:
            self._ownership.hear(min(left, GLANCE))
        return self.is_set()
