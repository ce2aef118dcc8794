"""Sections of the README, for the site's first page."""

from __future__ import annotations

import re
from pathlib import Path

_README = Path(__file__).parents[2] / "README.md"
_LINK_IN_REPOSITORY = re.compile(r"\]\((?![a-z]+:|#)")


def section(*words: str) -> str:
    """A section by its heading, with its links as they are from docs/.

    Raises:
        KeyError: the README has none of that name.
    """
    heading = " ".join(words)
    parts = re.split(r"^## (.+)\n", _README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return f"## {heading}\n{_LINK_IN_REPOSITORY.sub('](../', sections[heading].rstrip())}"
