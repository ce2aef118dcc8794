"""Values as a reader likes them: 5m12s, 12,345, 0.4. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from orderly.cli.formats.answer import Cell, Kind, Style
from orderly.cli.text import printable
from orderly.monitoring.texts import duration


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


def moment(seconds: float) -> str:
    """A time of day in UTC, for the heading of a display that is drawn again and again."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%SZ")
