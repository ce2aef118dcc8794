"""Values as a reader likes them: 5m12s, 12,345, 64 %; and text from elsewhere, made visible."""

from __future__ import annotations

from collections.abc import Sequence

from orderly.monitoring import texts

NOT_KNOWN = "\N{EN DASH}"


def duration(seconds: float | None) -> str:
    """As `texts.duration` writes it."""
    return NOT_KNOWN if seconds is None else texts.duration(seconds)


def count(value: int | None) -> str:
    """A number with its thousands apart."""
    return NOT_KNOWN if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Per second; small ones are not shown as 0."""
    if value is None:
        return NOT_KNOWN
    return "<0.1" if 0 < value < 0.05 else f"{value:,.1f}"


def share(value: float) -> str:
    """A part of the whole in percent; small ones are not shown as 0."""
    if 0 < value < 0.0005:
        return "<0.1 %"
    return f"{100 * value:.1f} %" if value < 0.0995 else f"{100 * value:.0f} %"


def clock(seconds: float) -> str:
    """Seconds since the epoch as a date and a time of day in UTC, ISO 8601."""
    return texts.iso_time(seconds, "seconds")


def axis_times(times: Sequence[float]) -> list[str]:
    """Times below an axis, only as long as needed to distinguish them: within a day only hours."""
    written = [clock(at) for at in times]
    if len({text[:10] for text in written}) <= 1:
        return [text[11:] for text in written]
    return [f"{text[5:10]} {text[11:16]}Z" for text in written]


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` characters; both ends distinguish names, so the middle goes."""
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"


def plural(number: int, word: str) -> str:
    """1 group, 2 groups, 1,234 groups."""
    return texts.counted(number, word, f"{number:,}")


def left_out(number: int, word: str) -> str:
    """What is said below the first of many; "" if they are all."""
    return f"{plural(number, word)} more left out." if number else ""
