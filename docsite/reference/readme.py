"""Sections of the README, for the site's first page."""

from __future__ import annotations

import re
from pathlib import Path

_README = Path(__file__).parents[2] / "README.md"
_MARKER = re.compile(r"^<!-- /?repository -->\n+", re.MULTILINE)  # see .ci/long_description.py
_LINK_IN_REPOSITORY = re.compile(r"\]\((?![a-z]+:|#)")


def section(*words: str) -> str:
    """A section by its heading, with its links as they are from docs/.

    Raises:
        KeyError: the README has none of that name.
    """
    heading = " ".join(words)
    parts = re.split(r"^## (.+)\n", _README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    text = _LINK_IN_REPOSITORY.sub("](../", _MARKER.sub("", sections[heading]).rstrip())
    return f"## {heading}\n{text}"
