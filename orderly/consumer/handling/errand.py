"""What runs in the turn of a lane instead of its next messages, between two batches.

An errand is a conversation of its own: it says whom to call the handler for, and is told what came
of it. What it does in between may block, so a loop of coroutines has that done on a thread.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from orderly.consumer.handling.calling import Called, Mode
from orderly.model import ReceivedMessage


@dataclass(frozen=True, slots=True)
class CallHandler:
    """Call the handler with these messages of the lane's key. Answer: Called.

    Attributes:
        messages: one or more.
        mode: what for.
    """

    messages: tuple[ReceivedMessage, ...]
    mode: Mode = Mode.LIVE


Steps = Generator[CallHandler, Called, None]


class Errand(Protocol):
    """One errand. Its steps are driven by one thread after the other."""

    def steps(self) -> Steps:
        """Do it; may be closed early, when the queue is lost."""


def next_call(steps: Steps, called: Called | None) -> CallHandler | None:
    """Go on with what the last call came to, None: there was none yet; None: it is done."""
    try:
        return next(steps) if called is None else steps.send(called)
    except StopIteration:
        return None
