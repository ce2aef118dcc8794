"""Docstrings, as Google's style has them: sections read as tables. Pure."""

from __future__ import annotations

import inspect
import re
from typing import Any

_ITEM = re.compile(r" {4}(?P<name>\w+): (?P<text>.*)")
_SHARED = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)+)(?P<text>:.*(?:\n {5,}.*)*)$", re.MULTILINE)
_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):")


def one_name_an_item(text: str) -> str:
    """A docstring in which items of several names, as in `a, b: seconds`, are one for each."""
    return _SHARED.sub(_separated, text)


def _separated(item: re.Match[str]) -> str:
    return "\n".join(f"    {name}{item['text']}" for name in item["names"].split(", "))


def section(subject: Any, *titles: str) -> dict[str, str]:
    """What a docstring says of each name in its first section of one of these titles."""
    lines = one_name_an_item(inspect.getdoc(subject) or "").splitlines()
    starts = [number for number, line in enumerate(lines) if line.rstrip(":") in titles]
    return _items(lines[starts[0] + 1 :]) if starts else {}


def _items(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if line and not line.startswith("    "):
            break
        item = _ITEM.match(line)
        if item:
            name = item["name"]
            found[name] = item["text"]
        elif line:
            found[name] += f" {line.strip()}"
    return found


def opening(subject: Any) -> str:
    """The paragraphs before the first section."""
    found = _SECTION.split(inspect.getdoc(subject) or "", maxsplit=1)
    return found[0].rstrip()
