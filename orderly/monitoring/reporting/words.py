"""Values as a reader likes them: 5m12s, 12,345, 64 %; and text from elsewhere, made visible."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime

NOT_KNOWN = "\N{EN DASH}"
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi overrides, surrogates, …


def duration(seconds: float | None) -> str:
    """The two largest units: 420ms, 12s, 5m12s, 3d4h; inf is `never`."""
    if seconds is None:
        return NOT_KNOWN
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


def count(value: int | None) -> str:
    """A number with its thousands apart."""
    return NOT_KNOWN if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Per second; small ones are not shown as 0."""
    if value is None:
        return NOT_KNOWN
    return "<0.1" if 0 < value < 0.05 else f"{value:,.1f}"


def clock(seconds: float) -> str:
    """Seconds since the epoch as a date and a time of day in UTC, ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def visible(text: str) -> str:
    r"""`text` on one line; what nobody would see, or what would turn text around, as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _UNSEEN
        else character
        for character in text
    )


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` characters; both ends tell names apart, so the middle goes."""
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"


def plural(number: int, word: str) -> str:
    """1 group, 2 groups, 1,234 groups."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
