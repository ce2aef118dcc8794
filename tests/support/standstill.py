"""A process that stands still: seconds pass in which none of its threads runs."""

import time
from types import SimpleNamespace

from orderly import clock
from orderly.awake import AwakeTime


class HandClock:
    """Both clocks of a client, moved by the test: `at` is the clock of leases.

    A second more is a second in which the process ran, if the test then calls `look`.
    """

    def __init__(self, at):
        self.at = at
        self._awake = AwakeTime(at)

    def look(self):
        self._awake = self._awake.looked(self.at)

    def now(self):
        self.look()
        return self._awake.at(self.at)

    def since(self, moment):
        return max(0.0, self.now() - self._awake.at(moment))


def can_stand_still(monkeypatch):
    """Returns a function that lets seconds pass, at once, on the clock of leases."""
    passed = [0.0]

    def clock_gettime(number):
        return time.clock_gettime(number) + passed[0]

    monkeypatch.setattr(clock, "time", SimpleNamespace(clock_gettime=clock_gettime))

    def stand_still(seconds):
        passed[0] += seconds

    return stand_still
