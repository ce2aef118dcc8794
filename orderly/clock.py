"""The clock of leases: it never goes back, and counts the time in which the machine slept.

A lease runs out at the broker meanwhile. Linux has CLOCK_BOOTTIME for that. On macOS
CLOCK_MONOTONIC goes on in sleep.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds since some moment, which is the same for all processes of a machine."""
    return time.clock_gettime(_CLOCK)
