"""What an audit's report shows of the tables: few rows, as plain values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A message in a picture.

    Attributes:
        at: when it was stored, seconds since the epoch.
        wrong: whether it is evidence.
    """

    queue: str
    offset: int
    seq: int
    at: float
    wrong: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """A key's messages around the first thing that is wrong, in the order of storing."""

    key: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown.

    Attributes:
        keys, evidence: rows of the tables as dicts, the worst first.
        queues, losses: all rows, by queue.
        times: (start of a span in seconds since the epoch, kind, how many).
        span: length of a span, seconds.
        pictures: of the worst keys.
    """

    keys: tuple[dict[str, Any], ...] = ()
    evidence: tuple[dict[str, Any], ...] = ()
    queues: tuple[dict[str, Any], ...] = ()
    losses: tuple[dict[str, Any], ...] = ()
    times: tuple[tuple[float, str, int], ...] = ()
    span: float = 1.0
    pictures: tuple[Picture, ...] = ()
