"""Which pulls to send before earlier ones are answered, and their answers in the order of offsets.

Pure. An answer may hold fewer messages than asked for, since a broker has limits of its own (32
messages or 256 KiB a pull, 8 or 64 KiB from its disk, unless it is told otherwise). What it left
out is asked for next, and later answers are kept: nothing is pulled twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

A = TypeVar("A")

_TRUSTED = 32  # full answers after which twice as much is asked for: a limit may have gone


@dataclass(slots=True)
class _Pull(Generic[A]):
    end: int
    answer: A | None = None


class Ahead(Generic[A]):
    """Pulls of one range. Not thread-safe.

    Args:
        start, end: the offsets to read, `end` not among them.
        batch: messages to ask for at once, at most.
        depth: pulls in flight, at most; answers that wait for an earlier one: as many more.

    Attributes:
        position: all before it was taken.
    """

    def __init__(self, start: int, end: int, *, batch: int, depth: int) -> None:
        self.position = start
        self._end = end
        self._batch = self._step = batch
        self._depth = depth
        self._full_answers = 0
        self._pulls: dict[int, _Pull[A]] = {}  # by their first offset

    def next_pull(self) -> tuple[int, int] | None:
        """The offset and the number of messages to ask for now; None: wait for an answer."""
        waiting = sum(pull.answer is None for pull in self._pulls.values())
        start, end = self._first_gap()
        if start >= end or waiting >= self._depth:
            return None
        if start > self.position and len(self._pulls) >= 2 * self._depth:
            return None
        count = min(self._step, end - start)
        self._pulls[start] = _Pull(start + count)
        return start, count

    def _first_gap(self) -> tuple[int, int]:
        at = self.position
        for start in sorted(self._pulls):
            if start > at:
                return at, start
            at = max(at, self._pulls[start].end)
        return at, self._end

    def answered(self, start: int, end: int, answer: A) -> None:
        """Note an answer that covers the offsets from `start` to `end`.

        One that was not asked for, or is here already, is passed over.
        """
        pull = self._pulls.get(start)
        if pull is None or pull.answer is not None:
            return
        self._learn(end - start, pull.end - start)
        pull.end, pull.answer = end, answer

    def too_much(self, start: int, end: int) -> None:
        """Note that the answer for these offsets was too large: they are asked for in halves."""
        self._pulls.pop(start, None)
        self._learn((end - start) // 2, end - start)

    def _learn(self, got: int, asked: int) -> None:
        if got < asked:
            self._step, self._full_answers = max(got, 1), 0
            return
        self._full_answers += 1
        if self._full_answers >= _TRUSTED:
            self._step, self._full_answers = min(2 * self._step, self._batch), 0

    def take(self) -> Iterator[tuple[int, int, A]]:
        """Take the answers that come next: the first offset each adds, its end, and itself."""
        while self._pulls:
            start = min(self._pulls)
            pull = self._pulls[start]
            if start > self.position or pull.answer is None:
                return
            del self._pulls[start]
            if pull.end > self.position:
                begin, self.position = self.position, pull.end
                yield begin, pull.end, pull.answer

    def forget_unanswered(self) -> None:
        """Ask again for whatever was asked for and is not here."""
        self._pulls = {
            start: pull for start, pull in self._pulls.items() if pull.answer is not None
        }

    def go_to(self, position: int) -> None:
        """Go on from `position`, further on or back; what was asked for before it is given up."""
        self.position = position
        self._pulls = {start: pull for start, pull in self._pulls.items() if start >= position}
