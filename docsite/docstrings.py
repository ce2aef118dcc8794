"""Sections of docstrings, as Google's style has them, read as tables. Pure."""

from __future__ import annotations

import inspect
import re
from typing import Any

_ITEM = re.compile(r" {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*)")


def section(subject: Any, *titles: str) -> dict[str, str]:
    """What a docstring says of each name in its first section of one of these titles.

    Names that share an item, as in `a, b: seconds`, have the same text.
    """
    lines = (inspect.getdoc(subject) or "").splitlines()
    starts = [number for number, line in enumerate(lines) if line.rstrip(":") in titles]
    return _items(lines[starts[0] + 1 :]) if starts else {}


def _items(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if line and not line.startswith("    "):
            break
        item = _ITEM.match(line)
        if item:
            names = item["names"].split(", ")
            found |= dict.fromkeys(names, item["text"])
        elif line:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def opening(subject: Any) -> str:
    """The paragraphs before the first section, on lines of their own."""
    paragraphs = (inspect.getdoc(subject) or "").split("\n\n")
    said = []
    for paragraph in paragraphs:
        if re.match(r"(Args|Attributes|Raises|Returns|Yields):", paragraph):
            break
        said.append(paragraph)
    return "\n\n".join(said)
