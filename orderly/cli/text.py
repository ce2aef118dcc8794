r"""Text from elsewhere (keys, bodies, remarks), made safe for a terminal. Pure.

A message's key may hold escape sequences that repaint the reader's screen, or a newline that
forges a line of output. What is not printable is shown as `\x1b`-style escapes or dropped.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles, hyperlinks
    r"|[\x1b][PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC strings
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement
    r"|\x1b[ -/]*[0-~]?"  # the two-character rest
)
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi overrides, surrogates, …


def printable(text: str) -> str:
    """`text` on one line without terminal escapes; other unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "".join(map(_shown, _ESCAPE_SEQUENCE.sub("", text)))


def escaped(text: str) -> str:
    """A key, say: `text` on one line, with all that is in it, terminal escapes as well."""
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def preview(body: bytes, width: int) -> str:
    """The start of a message's body, at most `width` characters; undecodable bytes are marked."""
    text = printable(body[: width * 4].decode("utf-8", errors="replace"))
    cut = len(text) > width or len(body) > width * 4
    return text[: width - 1] + "…" if cut else text


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
