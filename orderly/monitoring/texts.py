"""How values are written for every reader: columns of a table, and texts. Pure.

What a column holds decides how its cells are written, on a terminal and in a report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from orderly.foreign_text import shell_word
from orderly.protocol.moments import FIRST_MOMENT, LAST_MOMENT, moment_of

_FIRST, _LAST = moment_of(FIRST_MOMENT), moment_of(LAST_MOMENT)
Cell = str | int | float | None
"""None: not known. A text is written as it is in any column."""


class ColumnKind(Enum):
    """What a column holds."""

    TEXT = auto()
    STATE = auto()  # a QueueState or a Verdict: coloured
    KEY = auto()  # of a message; in a report in a type of equal widths
    TIME = auto()  # ISO 8601, for a reader to the minute; in a report seconds since the epoch
    COUNT = auto()
    SECONDS = auto()  # how long; inf: never
    RATE = auto()  # a second
    RATIO = auto()
    SHARE = auto()  # 0.25 is 25 %
    NUMBER = auto()  # of a unit that another column names, or a place such as an offset


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, what it holds, whether only `wide` shows it, its least width."""

    heading: str
    kind: ColumnKind = ColumnKind.TEXT
    wide: bool = False
    width: int = 0

    @property
    def name(self) -> str:
        """Its name for programs."""
        return self.heading.lower().replace(" ", "_").replace("/", "_per_")


_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def duration(seconds: float) -> str:
    """The two largest units: 420ms, 12s, 5m12s, 3d4h; inf is `never`."""
    if math.isinf(seconds):
        return "never"
    if 0 < seconds < 1:
        return f"{max(1, round(seconds * 1000))}ms"
    left, parts = round(seconds), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return "".join(parts) or "0s"


def counted(count: int, word: str, written: str = "") -> str:
    """1 message, 2 messages; `written` is how the number is to look."""
    return f"{written or count} {word}{'' if count == 1 else 's'}"


def key_command(verb: str, group: str, topic: str, key: str | int) -> str:
    """`orderly parked VERB` about one key, as a shell takes it.

    A number is given with --int, what begins with "-" behind "--".
    """
    names, options = [group, str(key)], ["-t", topic, *(["--int"] if isinstance(key, int) else [])]
    dashed = any(name.startswith("-") for name in names)
    words = [*options, "--", *names] if dashed else [*names, *options]
    return " ".join(("orderly parked", verb, *map(shell_word, words)))


def utc(seconds: float) -> datetime:
    """Seconds since the epoch as a time of the calendar: kept to it, whatever others claimed."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)


def iso_time(seconds: float, to: str = "milliseconds") -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the millisecond or the second."""
    return utc(seconds).isoformat(timespec=to).replace("+00:00", "Z")
