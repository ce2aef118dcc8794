"""How far Spark is with a step of a job: a line on stderr, from Spark's own count of tasks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import TextIO

from pyspark import StatusTracker
from pyspark.sql import SparkSession

from orderly.monitoring.texts import duration

Progress = Callable[[str], AbstractContextManager[None]]
"""Says what the Spark jobs started in its `with` statement are for."""

_LOOK = 0.5  # seconds between two looks at Spark
_SAY_AGAIN = 10.0  # seconds between two lines where nothing can be overwritten
_numbers = count(1)


def silent(what: str) -> AbstractContextManager[None]:  # noqa: ARG001  as every Progress
    """Report nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of the stages that run now.

    Attributes:
        done, running, total: how many.
    """

    done: int = 0
    running: int = 0
    total: int = 0

    def line(self, what: str, seconds: float) -> str:
        """As in "reading orders: 3 of 8 tasks done, 2 run, 12s"."""
        tasks = f"{self.done} of {self.total} tasks done, {self.running} run, " * bool(self.total)
        return f"{what}: {tasks}{duration(round(seconds))}"


def progress_on_stderr(spark: SparkSession, stream: TextIO | None = None) -> Progress:
    """Progress as lines on stderr.

    On a terminal one line that changes; elsewhere a line each ten seconds, and one at the end of
    each step. Steps are job groups of the session, so Spark's own page names them, too. A step
    counts what its own thread starts.

    Args:
        spark: the session.
        stream: to write to; None: stderr.
    """
    out = stream or sys.stderr
    context = spark.sparkContext

    @contextmanager
    def step(what: str) -> Iterator[None]:
        group = f"orderly-{next(_numbers)}"
        context.setJobGroup(group, what)
        line = _ProgressLine(out, what, lambda: running(context.statusTracker(), group))
        line.start()
        try:
            yield
        finally:
            line.end()
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]

    return step


def running(tracker: StatusTracker, group: str) -> Tasks:
    """The tasks of the active stages of a job group."""
    done = active = total = 0
    live = set(tracker.getActiveStageIds())
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in live.intersection(info.stageIds if info else ()):
            found = tracker.getStageInfo(stage)
            if found is not None:
                done += found.numCompletedTasks
                active += found.numActiveTasks
                total += found.numTasks
    return Tasks(done, active, total)


class _ProgressLine:
    """Looks at a step until it ends, and writes what it sees."""

    def __init__(self, out: TextIO, what: str, look: Callable[[], Tasks]) -> None:
        self._out, self._what, self._look = out, what, look
        self._over = threading.Event()
        self._began = self._written_at = time.monotonic()
        self._width = 0
        self._thread = threading.Thread(
            target=self._run, name=f"orderly-progress-{what}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop looking, and write how long it took."""
        self._over.set()
        self._thread.join()
        self._write(f"{self._what}: {duration(round(time.monotonic() - self._began))}", last=True)

    def _run(self) -> None:
        terminal = self._out.isatty()
        while not self._over.wait(_LOOK):
            now = time.monotonic()
            if terminal or now - self._written_at >= _SAY_AGAIN:
                self._written_at = now
                self._write(self._look().line(self._what, now - self._began), last=not terminal)

    def _write(self, line: str, *, last: bool) -> None:
        """One line; on a terminal over the previous one, unless that was the last."""
        if self._out.isatty():
            blanks = " " * max(0, self._width - len(line))
            self._width = 0 if last else len(line)
            self._out.write(f"\r{line}{blanks}" + "\n" * last)
        else:
            self._out.write(line + "\n")
        self._out.flush()
