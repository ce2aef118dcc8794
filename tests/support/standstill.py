"""A process that stands still: seconds pass in which none of its threads runs."""

import time
from types import SimpleNamespace

from orderly import clock


def can_stand_still(monkeypatch):
    """Returns a function that lets seconds pass, at once, on the clock of leases."""
    passed = [0.0]

    def clock_gettime(number):
        return time.clock_gettime(number) + passed[0]

    monkeypatch.setattr(clock, "time", SimpleNamespace(clock_gettime=clock_gettime))

    def stand_still(seconds):
        passed[0] += seconds

    return stand_still
