"""One run of one side: a process of its own, bounded in time, and the line it prints."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds; more than any program takes
_TAIL = 4  # lines of a failed program's errors


class SideFailed(Exception):
    """A side that could not be measured; the text says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one process measured of itself.

    Attributes:
        messages: how many were timed.
        seconds, cpu_seconds: those they took.
        rss_mib: the most memory it had resident.
        first_message: seconds from the start of the process to its first message.
        latencies: milliseconds of each message, sorted; empty if that was not the question.
        inversions: messages found out of order; None if nobody looked.
        repeats: messages found twice.
    """

    messages: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rss_mib: float = 0.0
    first_message: float = 0.0
    latencies: tuple[float, ...] = field(default=(), repr=False)
    inversions: int | None = None
    repeats: int | None = None

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    @property
    def cpu(self) -> float:
        """Seconds of CPU per 100,000 messages."""
        return self.cpu_seconds * 1e5 / self.messages

    @property
    def p50(self) -> float:
        """Median latency, milliseconds."""
        return percentile(self.latencies, 50)

    @property
    def p90(self) -> float:
        """90 of 100 messages took no longer."""
        return percentile(self.latencies, 90)

    @property
    def p99(self) -> float:
        """99 of 100 messages took no longer."""
        return percentile(self.latencies, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The least value that `percent` of 100 do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def parse(said: Mapping, launched: float) -> Run:
    """Read a program's line.

    Args:
        said: its JSON.
        launched: when the process was started, seconds since 1970.
    """
    known = {name: said[name] for name in Run.__dataclass_fields__ if name in said}
    if "first_at" in said:
        known["first_message"] = said["first_at"] - launched
    if "latencies_ns" in said:
        known["latencies"] = tuple(sorted(nanos / 1e6 for nanos in said["latencies_ns"]))
    return Run(**known)


def run(command: Sequence, env: Mapping[str, str] | None = None) -> Run:
    """Run a program to its end.

    Raises:
        SideFailed: it failed, printed no result, or took too long.
    """
    launched = time.time()
    with started(command, env) as process:
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise SideFailed(f"did not end within {PATIENCE:g} s") from None
    if process.returncode != 0 or not out.strip():
        raise SideFailed(_why(process.returncode, errors))
    return parse(json.loads(out.splitlines()[-1]), launched)


def line(process: subprocess.Popen) -> dict:
    """The next line of a program, which is JSON; a program that ends or hangs has none.

    Raises:
        SideFailed: there was none within PATIENCE.
    """
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    said = process.stdout.readline()
    timer.cancel()
    if not said:
        process.wait()
        raise SideFailed(_why(process.returncode, process.stderr.read()))
    return json.loads(said)


@contextlib.contextmanager
def started(command: Sequence, env: Mapping[str, str] | None = None):
    """A process with pipes, in the checkout; it and its children are gone afterwards."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def python(module: str, interpreter: Path | str = sys.executable) -> list[str]:
    """The command of a module of this checkout."""
    return [str(interpreter), "-m", module]


def _why(code: int, errors: str) -> str:
    last = " | ".join(errors.strip().splitlines()[-_TAIL:])
    return f"ended with status {code}: {last or 'it said nothing'}"
