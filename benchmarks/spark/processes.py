"""What processes cost, read from /proc: CPU seconds and memory of Spark's JVM and its workers."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 15)  # user, system, and both of children that ended, after the name


@dataclass(frozen=True)
class Tree:
    """A process and all that it started.

    Attributes:
        root: its id.
    """

    root: int

    def cpu(self):
        """CPU seconds so far, of those that ended, too."""
        return sum(sum(map(int, stat[_TIMES])) for stat in self._members().values()) / _TICKS

    def peak_mib(self, name):
        """The largest peak of resident memory of a member whose command has `name` in it."""
        peaks = [_peak_kib(pid) for pid in self._members() if name in _command(pid)]
        return max(peaks, default=0) / 1024

    def _members(self):
        stats = _all_stats()
        members = {self.root}
        grown = True
        while grown:
            children = {pid for pid, stat in stats.items() if int(stat[1]) in members}
            grown = not children <= members
            members |= children
        return {pid: stats[pid] for pid in members if pid in stats}


def own_cpu():
    """CPU seconds of this process so far."""
    times = os.times()
    return times.user + times.system


def _all_stats():
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    return stats


def _peak_kib(pid):
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def _command(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
