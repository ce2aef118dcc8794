"""SIGTERM and SIGINT (Ctrl-C) as a note for whoever waits: how a program is asked to end.

Python runs a signal's handler in the main thread, between any two steps of it: that thread may hold
the very lock that the handler would take. So the handler leaves a note and takes none, and whoever
waits looks for it again and again: a signal right before a wait would not end that wait.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from weakref import WeakSet

LOOK = 0.2  # seconds between two looks
_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)

Noted = Callable[[], signal.Signals | None]
"""Which signal has come; None: none yet."""


@contextmanager
def heard(wanted: bool = True) -> Iterator[Noted]:
    """Have the two signals leave a note meanwhile; the note stays readable afterwards.

    Only Python's own handlers are replaced, and put back at the end: whoever has others, an event
    loop for example, wants something else. The first signal puts the system's default in their
    place, so that a second one ends the process at once. Several may overlap, as
    coroutines do: all read the same note.

    Args:
        wanted: False: replace nothing. So it is in every thread but the main one, too.
    """
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    listener = _Listener()
    try:
        _NOTES.enter(listener)
        yield _NOTES.first
    finally:
        _NOTES.leave(listener)


class _Listener:
    """Somebody who waits."""


class _Notes:
    """The process's. Used by the main thread alone; only `first` is read by others, too.

    An alarm's exception can cut off whoever waits between any two steps, and keep it from leaving:
    so it is known as long as it lives, and not counted.
    """

    def __init__(self) -> None:
        self._notes: list[signal.Signals] = []
        self._listeners: WeakSet[_Listener] = WeakSet()
        self._process = 0
        self._before: dict[signal.Signals, Callable[..., object] | int] = {}

    def first(self) -> signal.Signals | None:
        return self._notes[0] if self._notes else None

    def enter(self, listener: _Listener) -> None:
        others = len(self._listeners)
        self._listeners.add(listener)
        if others:
            return
        self._notes = []
        self._process = os.getpid()
        for number in _NUMBERS:
            before = signal.getsignal(number)
            if before in _DEFAULTS:
                self._before[number] = before
                signal.signal(number, self._note)

    def leave(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        if self._listeners:
            return
        for number, before in self._before.items():
            now = signal.getsignal(number)
            if now == self._note or (self._notes and now is signal.SIG_DFL):  # else another's
                signal.signal(number, before)
        self._before = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # A fork has nothing of ours to end, and nobody may wait any more: then as if we were not.
        if os.getpid() != self._process or not self._listeners:
            signal.signal(number, self._before[signal.Signals(number)])
            signal.raise_signal(number)
            return
        self._notes.append(signal.Signals(number))
        for each in _NUMBERS:
            if signal.getsignal(each) == self._note:
                signal.signal(each, signal.SIG_DFL)


_NOTES = _Notes()
