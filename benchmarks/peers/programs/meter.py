"""What every program of a side shares: the clock, its own CPU time and memory, the printed line."""

import itertools
import json
import random
import string
import threading
import time
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

KEYS = 1000
TIMEOUT = 150.0  # seconds; whoever waits longer has failed


class Meter:
    """Counts messages, from any thread, and times those after the first `warm`.

    Args:
        count: the message at which the clock stops, the warm ones included.
        warm: starting, connecting and compiling are not what is compared.
    """

    def __init__(self, count, warm):
        self._count, self._warm = count, warm
        self._numbers = itertools.count(1)
        self._done = threading.Event()
        self._first = self._started_at = self._started = self._cpu = 0.0
        self._result = {}

    def tick(self):
        """One message more is finished."""
        number = next(self._numbers)
        if number == 1:
            self._first = time.time()
        if number == self._warm:
            self._started_at = time.time()
            self._started, self._cpu = time.perf_counter(), time.process_time()
        elif number == self._count:
            self._result = {
                "messages": self._count - self._warm,
                "seconds": time.perf_counter() - self._started,
                "cpu_seconds": time.process_time() - self._cpu,
                "first_at": self._first,
                "started_at": self._started_at,
                "ended_at": time.time(),
            }
            self._done.set()

    def result(self):
        """Wait for the last message; returns what was measured."""
        assert self._done.wait(TIMEOUT), f"not finished within {TIMEOUT:g} s"
        return self._result


def key(number):
    """The sharding key of a message: neighbours have different ones."""
    return f"key-{number % KEYS}"


def zipf(count):
    """Numbers of keys, the n-th in proportion to 1 / n; `Load.java` draws the same."""
    up_to = list(accumulate(1 / (number + 1) for number in range(KEYS)))
    state, found = 1, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % (1 << 31)
        found.append(bisect_right(up_to, up_to[-1] * state / (1 << 31)))
    return found


def body(size):
    """Printable text of `size` bytes, always the same."""
    return "".join(random.Random(size).choices(string.ascii_letters, k=size))


def most_memory():
    """MiB that this process had resident at most."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def tell(**measured):
    """Print the program's line."""
    print(json.dumps(measured | {"rss_mib": most_memory()}), flush=True)
