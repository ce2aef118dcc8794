"""Where a thread or a coroutine is at this moment, as text without the values of variables."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

_LONGEST = 4000  # characters; what is inside counts, so the outer calls are cut off


def thread_stack(identity: int) -> str:
    """The stack of a thread of this process; empty if it has ended.

    Args:
        identity: as `threading.get_ident` says.
    """
    frame = sys._current_frames().get(identity)  # noqa: SLF001 - the only way to it
    return "" if frame is None else _text(reversed(list(traceback.walk_stack(frame))))


def coroutine_stack(coroutine: object) -> str:
    """Where a suspended coroutine waits; empty if it runs: then ask for its thread's stack.

    `Task.get_stack` shows only the outermost `await`; this one goes on to what that waits for.
    """
    if getattr(coroutine, "cr_running", False):
        return ""
    return _text(_frames(coroutine))


def _frames(waiting: Any) -> Iterator[tuple[FrameType, int]]:
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            yield frame, frame.f_lineno
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _text(frames: Iterable[tuple[FrameType, int]]) -> str:
    text = "".join(traceback.StackSummary.extract(iter(frames)).format())
    return text if len(text) <= _LONGEST else f"…{text[-_LONGEST:]}"
