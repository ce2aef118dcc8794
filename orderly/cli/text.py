r"""Text from elsewhere (keys, bodies, remarks), made safe for a terminal. Pure.

A message's key may hold escape sequences that repaint the reader's screen, or a newline that
forges a line of output. What is not printable is shown as `\x1b`-style escapes or dropped.
"""

from __future__ import annotations

import re

from orderly.foreign_text import escaped
from orderly.model import ReceivedMessage, UndecodableMessage

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles, hyperlinks
    r"|[\x1b][PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC strings
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement
    r"|\x1b[ -/]*[0-~]?"  # the two-character rest
)


def printable(text: str) -> str:
    """`text` on one line without terminal escapes; other unprintable characters as escapes."""
    if text.isprintable():
        return text
    return escaped(_ESCAPE_SEQUENCE.sub("", text))


def in_our_voice(text: str) -> str:
    """An error of click as ours are: on one line, not a sentence of its own."""
    words = " ".join(text.split())
    if words[1:2].islower():  # a word, and no name such as BODY
        words = words[0].lower() + words[1:]
    return words.removesuffix(".").replace(". (Did you mean", " (did you mean")


def preview(message: ReceivedMessage, width: int) -> str:
    """The start of a message's body, at most `width` characters; undecodable bytes are marked."""
    if isinstance(message, UndecodableMessage):
        body = f"(cannot be read: {message.why})".encode()
    else:
        body = message.body
    text = printable(body[: width * 4].decode("utf-8", errors="replace"))
    cut = len(text) > width or len(body) > width * 4
    return text[: width - 1] + "…" if cut else text
