"""A group of members in processes of their own, and what its work cost between 10 and 90 %."""

import bisect
import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from benchmarks.scale_member import Sample
from tests.support.waiting import eventually

FROM, TO = 0.1, 0.9  # of the messages: neither the start nor the empty queues at the end
TIMEOUT = 300.0
SETTLE = 3.0  # seconds
REST = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """What consuming cost, in the part of it that is measured.

    Attributes:
        rate: messages a second of the whole group.
        cpu: microseconds of CPU of its members for each message.
        peak: bytes of RSS of the largest member, at most.
    """

    rate: float
    cpu: float
    peak: int


class Member:
    """The parent's end of one process.

    Args:
        task: what it does.
    """

    def __init__(self, task):
        self.samples = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale_member", json.dumps(dataclasses.asdict(task))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def last(self):
        """The newest sample; None: there is none yet."""
        assert self._process.poll() is None, "a member's process has ended"
        return self.samples[-1] if self.samples else None

    def go(self):
        """Let it consume."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def close(self):
        """End it cleanly."""
        self._process.stdin.close()
        self._process.wait(TIMEOUT)
        self._reader.join()

    def _read(self):
        for line in self._process.stdout:
            self.samples.append(Sample(**json.loads(line)))


@contextlib.contextmanager
def members(task, number=1):
    """So many members that hold their share of the queues and are paused; closed at the end."""
    with contextlib.ExitStack() as stack:
        group = []
        for _ in range(number):
            group.append(Member(task))
            stack.callback(group[-1].close)
        share = task.queues // number
        eventually(
            lambda: all(m.last and m.last.owned == share for m in group), TIMEOUT, every=0.05
        )
        yield group


def consume(task, count, number=1):
    """Have a backlog of `count` messages consumed by so many members; returns its Cost."""
    with members(task, number) as group:
        for member in group:
            member.go()
        eventually(
            lambda: sum(member.last.handled for member in group) >= count, TIMEOUT, every=0.05
        )
    return cost([member.samples for member in group], count)


def cost(samples, count):
    """The Cost of members with these samples, which handled `count` messages."""
    times = sorted(sample.time for each in samples for sample in each)
    begun, ended = (_when(samples, times, share * count) for share in (FROM, TO))
    handled, cpu = (
        sum(_at(each, ended, name) - _at(each, begun, name) for each in samples)
        for name in ("handled", "cpu")
    )
    peak = max(sample.rss for each in samples for sample in each)
    return Cost(handled / (ended - begun), cpu / handled * 1e6, peak)


def _when(samples, times, count):
    """The first moment at which the group had handled so many."""
    return next(t for t in times if sum(_at(each, t, "handled") for each in samples) >= count)


def _at(samples, moment, name):
    """A member's figure at that moment, between the two samples around it."""
    at = bisect.bisect(samples, moment, key=lambda sample: sample.time)
    before, after = samples[max(at - 1, 0)], samples[min(at, len(samples) - 1)]
    low, high = getattr(before, name), getattr(after, name)
    span = after.time - before.time
    return low if span <= 0 else low + (high - low) * (moment - before.time) / span


@dataclass(frozen=True, slots=True)
class Rest:
    """A member that has nothing to do.

    Attributes:
        rss: bytes.
        cpu: milliseconds of CPU a second.
    """

    rss: int
    cpu: float


def rest(task, count=0):
    """One member that has handled `count` messages and gets no more; returns its Rest."""
    with members(task) as [member]:
        member.go()
        eventually(lambda: member.last.handled >= count, TIMEOUT, every=0.05)
        time.sleep(SETTLE)
        begun = member.last
        time.sleep(REST)
        ended = member.last
        return Rest(ended.rss, (ended.cpu - begun.cpu) / (ended.time - begun.time) * 1e3)
