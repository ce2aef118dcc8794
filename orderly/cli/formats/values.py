"""Values as a reader likes them: 5m12s, 12,345, 0.4. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from orderly.cli.formats.answer import Cell, Kind, Style
from orderly.cli.text import printable

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def shown(cell: Cell, kind: Kind, style: Style) -> str:
    """A cell of a table; `-` if it is not known."""
    if cell is None or isinstance(cell, str):
        return printable(cell or "") or "-"
    if style.raw:
        return plain(cell)
    return _WRITTEN[kind](cell, style) if kind in _WRITTEN else plain(cell)


_WRITTEN: dict[Kind, Callable[[int | float, Style], str]] = {
    Kind.SECONDS: lambda seconds, _: duration(seconds),
    Kind.COUNT: lambda count, style: f"{count:,}" if style.terminal else str(count),
    Kind.RATE: lambda rate, _: f"{rate:.1f}",
    Kind.RATIO: lambda ratio, _: f"{ratio:.1f}",
}


def plain(cell: Cell) -> str:
    """A cell for programs: whole numbers whole, others to the millisecond; "" if not known."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.3f}".rstrip("0").rstrip(".") if math.isfinite(cell) else str(cell)
    return str(cell)


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


def moment(seconds: float) -> str:
    """A time of day in UTC, for the heading of a display that is drawn again and again."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%SZ")
