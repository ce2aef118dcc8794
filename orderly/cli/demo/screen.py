"""What the demo shows: the words of a screen, and the plain one for pipes and logs.

The one drawn on a terminal is in `drawn`. Steps, facts and events are lines; a meter and the
lanes are live on a terminal and a line every few seconds elsewhere.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO

from orderly.config import MIB

Meter = Callable[[int], None]
"""Called with how much is done so far."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One queue being drained: of `total` messages `done` are consumed, by `owner` at present."""

    queue_id: int
    total: int
    done: int
    owner: str
    waiting: bool = False


LaneBoard = Callable[[Sequence[Lane]], None]
"""Called with all lanes, a few times a second."""


class Screen(Protocol):
    """Where the demo tells its story."""

    def title(self, text: str) -> None:
        """The first line."""

    def step(self, title: str, explanation: str) -> None:
        """A new step, and what happens in it."""

    def fact(self, text: str) -> None:
        """Something achieved."""

    def event(self, text: str) -> None:
        """Something worth watching: a failure made on purpose, a take-over."""

    def note(self, text: str) -> None:
        """A line by the way."""

    def busy(self, text: str) -> AbstractContextManager[None]:
        """Something takes a while and cannot say how long."""

    def meter(self, label: str, total: int, unit: str = "") -> AbstractContextManager[Meter]:
        """Progress towards `total`; unit "" counts things, "bytes" shows sizes."""

    def lanes(self) -> AbstractContextManager[LaneBoard]:
        """The queues while they are drained."""

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """The final table: what and how much."""

    def verdict(self, ok: bool, text: str) -> None:
        """The last word, in one line."""


def screen_for(stream: TextIO) -> Screen:
    """Drawn if `stream` is a terminal, else plain lines without any escape sequence."""
    if not stream.isatty():
        return PlainScreen(stream)
    from orderly.cli.demo.drawn import DrawnScreen  # noqa: PLC0415  imports rich

    return DrawnScreen(stream)


class PlainScreen:
    """Lines of ASCII; progress at most once every `every` seconds."""

    def __init__(
        self,
        stream: TextIO = sys.stdout,
        every: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._every = every
        self._clock = clock
        self._steps = 0

    def title(self, text: str) -> None:
        """The first line."""
        self._write(text)

    def step(self, title: str, explanation: str) -> None:
        """A numbered heading and a short paragraph."""
        self._steps += 1
        self._write(f"\n{self._steps}. {title}")
        text = textwrap.fill(explanation, 84, break_on_hyphens=False)
        self._write(textwrap.indent(text, "   "))

    def fact(self, text: str) -> None:
        """A line."""
        self._write(f"   - {text}")

    def event(self, text: str) -> None:
        """A line."""
        self._write(f"   ! {text}")

    def note(self, text: str) -> None:
        """A line."""
        self._write(text)

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """A line."""
        self._write(f"     {text} ...")
        yield

    @contextmanager
    def meter(self, label: str, total: int, unit: str = "") -> Iterator[Meter]:
        """A line every few seconds, with the rate so far."""
        started, shown = self._clock(), self._clock()

        def update(done: int) -> None:
            nonlocal shown
            now = self._clock()
            if now - shown >= self._every:
                shown = now
                self._write(f"     {label}: {progress_text(done, total, now - started, unit)}")

        yield update

    @contextmanager
    def lanes(self) -> Iterator[LaneBoard]:
        """A line every few seconds: what is left in each queue and who owns it."""
        shown = self._clock()

        def update(lanes: Sequence[Lane]) -> None:
            nonlocal shown
            if self._clock() - shown >= self._every:
                shown = self._clock()
                left = " ".join(f"q{x.queue_id}={x.total - x.done}{x.owner}" for x in lanes)
                self._write(f"     left: {left}")

        yield update

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Two aligned columns."""
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            self._write(f"   {name.ljust(width)}  {value}")

    def verdict(self, ok: bool, text: str) -> None:
        """The last word, in one line."""
        self._write(f"\n{'OK' if ok else 'BAD'} - {text}")

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")  # at once: the live traffic's meter is told by a thread
        self._stream.flush()


def progress_text(done: int, total: int, seconds: float, unit: str) -> str:
    """Like "12,000 of 50,000 (6,000/s, 6 s left)"; bytes are shown in MiB."""
    rate = done / seconds if seconds > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate else ""
    scale = MIB if unit == "bytes" else 1
    name = " MiB" if unit == "bytes" else ""
    return f"{done / scale:,.0f} of {total / scale:,.0f}{name} ({rate / scale:,.0f}{name}/s{left})"
