"""RocketMQ's releases by the number that every answer of a server carries. Pure.

Java counts them in one enum (MQVersion): two a patch level, its snapshot first, ten patch levels a
minor release, from 4.1.0 on without a gap; 5.0.0 follows where 4.10.0 would be.
"""

from __future__ import annotations

_OF_4_1_0 = 233
_MINOR, _PATCH = 20, 2  # numbers
_OF_5_0_0 = 413
_LAST = _OF_5_0_0 + 10 * _MINOR - _PATCH
OLDEST_TRIED = _OF_5_0_0


def release_of(number: int) -> str:
    """The release of a server, as "5.5.0"; a snapshot counts as the release it leads to."""
    if number < _OF_4_1_0 - 1:
        return "older than 4.1"
    if number > _LAST:
        return "later than 5.9"
    steps = number + (number % _PATCH == 0) - _OF_4_1_0  # snapshots are even
    minor, rest = divmod(steps, _MINOR)
    major, minor = (4, minor + 1) if number < _OF_5_0_0 - 1 else (5, minor - 9)
    return f"{major}.{minor}.{rest // _PATCH}"
