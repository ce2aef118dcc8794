"""Moments: milliseconds since the epoch on the wire, seconds here.

A sender, a broker and a member may claim any 64-bit number. What is no time of the calendar is
kept to its first and last moment, so that every reader can show it, and write it again.
"""

from __future__ import annotations

# Of Python's and Spark's calendars: the years 1 to 9999. Milliseconds since the epoch.
FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000, 253_402_300_799_999


def moment_of(milliseconds: int) -> float:
    """Return the moment in seconds since the epoch, kept to the calendar."""
    return min(max(milliseconds, FIRST_MOMENT), LAST_MOMENT) / 1000


def milliseconds_of(moment: float) -> int:
    """Return what `moment_of` was given."""
    return round(moment * 1000)
