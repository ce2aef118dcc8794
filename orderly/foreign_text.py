"""PURE: text from elsewhere (keys, bodies, exceptions' texts, brokers' answers) as it may be shown.

Who writes to a topic chooses it: it may hold a terminal's commands, line ends that forge a line of
a log, marks that turn text around; or be somebody's personal data.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from hashlib import sha256

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi overrides, surrogates, …
_DIGITS = 16
_HIDDEN = re.compile(rf"#[0-9a-f]{{{_DIGITS}}}")


def escaped(text: str) -> str:
    r"""`text` on one line; what nobody would see, or what would turn text around, as `\x1b`."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shell_word(text: str) -> str:
    """`text` as one word of a command to copy; a shell runs nothing of it, whatever it holds."""
    return shlex.quote(escaped(text))


def key_digest(key: str | int) -> str:
    """Return 16 hex digits: the same for the same key everywhere; a number is not its text."""
    kind = "i" if isinstance(key, int) else "s"
    return sha256(f"{kind}{key}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def hidden(key: str | int) -> str:
    """What is shown instead of a key that may be personal data; the same for the same key.

    Once: a key that has the form of what is shown is a sender's choice, and is hashed as any
    other, or it would be shown as the key that has this hash.
    """
    return f"#{key_digest(key)}"


def is_hidden(key: str | int) -> bool:
    """Whether a key was hidden, so that no advice may name it for a command."""
    return isinstance(key, str) and _HIDDEN.fullmatch(key) is not None
