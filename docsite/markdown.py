"""Texts of the code as Markdown. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]+`)")
_MEANT_AS_CODE = re.compile(r"(?<![\w`-])(--[a-z][\w-]*|-[a-zA-Z]\b|[A-Z]+_[A-Z_]+)")
_SPECIAL = re.compile(r"([\\*_\[\]|])")


def prose(text: str) -> str:
    """A text in which only code means something: between backticks, an option, a variable."""
    spans = _CODE.split(" ".join(text.split()))
    spans[::2] = [_MEANT_AS_CODE.sub(r"`\1`", span) for span in spans[::2]]
    parts = _CODE.split("".join(spans))
    return "".join(_plain(part) if n % 2 == 0 else code(part[1:-1]) for n, part in enumerate(parts))


def _plain(text: str) -> str:
    return html.escape(_SPECIAL.sub(r"\\\1", text), quote=False)


def code(text: str) -> str:
    """Code in a line; it may stand in a table."""
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown without line ends."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def terms(entries: Iterable[tuple[str, str]]) -> str:
    """Terms with what they mean, set side by side where there is room."""
    body = "\n\n".join(f"{term}\n:   {meaning}" for term, meaning in entries)
    return f'<div class="terms" markdown>\n\n{body}\n\n</div>'


def block(text: str, language: str = "text") -> str:
    """Lines as they are."""
    return f"```{language}\n{text.rstrip()}\n```"
