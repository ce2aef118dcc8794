"""Looks at both sides of a measurement 50 times a second until it is over."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orderly.bench.clock import PhaseClock
from orderly.bench.consuming import Consuming
from orderly.bench.figures import Curve, Where
from orderly.bench.sending import Sending

_LOOK = 0.02  # seconds between two looks
_STALLED = 30.0  # seconds without a message
_PATIENCE = 10.0  # seconds for what is on its way after an interruption
_STATM = "/proc/self/statm"

Progress = Callable[[int, int], None]  # sent, consumed


@dataclass(slots=True)
class Start:
    """Where the clocks stood when the span began.

    Attributes:
        at: time.monotonic().
        cpu: time.process_time().
        booked: of the PhaseClock.
        handler_cpu: seconds in the handler.
    """

    at: float
    cpu: float
    booked: dict[Where, float]
    handler_cpu: float


@dataclass(slots=True)
class Seen:
    """What the looks have found.

    Attributes:
        sent, consumed: how many there were, and when.
        idle: what was waited for at each look, if nothing was computed then.
        busy: calls of the handler that waited, summed over the looks.
        queues: held, the most.
        rss: bytes of memory, the most.
        cpu_end: time.process_time() at the end.
        booked_end: of the PhaseClock, then.
    """

    sent: Curve = field(default_factory=Curve)
    consumed: Curve = field(default_factory=Curve)
    idle: list[Where] = field(default_factory=list)
    busy: int = 0
    queues: int = 0
    rss: int = 0
    cpu_end: float = 0.0
    booked_end: dict[Where, float] = field(default_factory=dict)


class Watcher:
    """Measures one span. For one thread, which it takes until the span ends.

    Args:
        clock: of both sides.
        sending, consuming: at work; None: not a part of it.
        expected: messages to be consumed; None: those that `sending` gets acknowledged.
        seconds: after which a span without `sending` ends; None: never.

    Attributes:
        clock, sending, consuming: as given.
        began: time.monotonic() when it was made.
        start: where the span begins.
        seen: what was found.
        ended: why it is over: "done", "time", "stalled" or "interrupted".
    """

    def __init__(
        self,
        clock: PhaseClock,
        sending: Sending | None,
        consuming: Consuming | None,
        *,
        expected: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.clock = clock
        self.sending = sending
        self.consuming = consuming
        self._expected = expected
        self._seconds = seconds
        self.seen = Seen()
        self.began = time.monotonic()
        self.start = self._mark()
        self._moved = (0, self.began)  # the last count, and when it was another one
        self.ended = "done"

    def run(self, progress: Progress) -> None:
        """Look on until all is done, time is over, nothing moves, or ^C."""
        try:
            while not self._over():
                time.sleep(_LOOK)
                self._look()
                progress(*self._counts())
        except KeyboardInterrupt:
            self.ended = "interrupted"
            if self.sending is not None:
                self.sending.stop()
                self.sending.finished.wait(_PATIENCE)
        self._look()
        self.seen.cpu_end = time.process_time()
        self.seen.booked_end = self.clock.seconds()
        if self.consuming is not None:
            self.consuming.watched.pulls.noting = False  # what a close ends is no failure

    # --- looking -------------------------------------------------------------------------------

    def _mark(self) -> Start:
        return Start(
            time.monotonic(), time.process_time(), self.clock.seconds(), self.handler_cpu()
        )

    def _counts(self) -> tuple[int, int]:
        sent = self.sending.tallies.messages() if self.sending else 0
        return sent, self.consuming.tallies.messages() if self.consuming else 0

    def _look(self) -> None:
        now, seen = time.monotonic(), self.seen
        sent, consumed = self._counts()
        if self.consuming is not None and self.sending is None and not seen.consumed.values:
            if not consumed:
                return  # to join the group is told apart: the span begins with the first message
            self.start = self._mark()
        for curve, value in ((seen.sent, sent), (seen.consumed, consumed)):
            curve.times.append(now)
            curve.values.append(value)
        if len(seen.idle) % 25 == 0:
            seen.rss = max(seen.rss, rss())
        seen.idle.append(self._waiting_for())
        if self.consuming is not None:
            seen.busy += self.consuming.busy
            seen.queues = max(seen.queues, self.consuming.queues)

    def _waiting_for(self) -> Where:
        """What it is, if this process has nothing to compute now."""
        if self.consuming is not None and self.consuming.busy:
            return Where.HANDLER_WAIT
        if self.sending is None:
            return Where.BROKER
        if self.sending.watched.sends.in_flight:
            return Where.BROKER
        if self.sending.pausing:
            return Where.PACING
        return Where.BROKER if self.consuming is None else Where.MESSAGES

    def _over(self) -> bool:
        now, counts = time.monotonic(), sum(self._counts())
        if counts != self._moved[0]:
            self._moved = counts, now
        if self.sending is not None and not self.sending.finished.is_set():
            return False
        if self.consuming is None:
            return True
        expected = self.expected()
        if expected is not None and self.consuming.handled >= expected:
            return True
        for reason, seconds, since in (
            ("time", self._seconds, self.start.at),
            ("stalled", _STALLED, self._moved[1]),
        ):
            if seconds is not None and now - since >= seconds:
                self.ended = reason
                return True
        return False

    def expected(self) -> int | None:
        """How many messages are to be consumed, as far as that is known now."""
        if self._expected is None and self.sending is not None:
            return self.sending.tallies.messages()
        return self._expected

    def handler_cpu(self) -> float:
        """CPU seconds of all calls of the handler, from those that were looked at."""
        if self.consuming is None:
            return 0.0
        tallies = self.consuming.tallies.all()
        looked = sum(tally.looked for tally in tallies)
        cpu = sum(tally.looked_cpu for tally in tallies)
        return cpu / looked * sum(tally.calls for tally in tallies) if looked else 0.0


def rss() -> int:
    """Bytes of memory this process has now; where that is not told, the most it ever had."""
    try:
        with open(_STATM) as file:  # noqa: PTH123 - 50 times cheaper than a Path here
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
