"""Ways to do the same, as tabs on the site; in the repository they stand below each other. Pure.

<!-- tabs -->
**Threads**

(any Markdown)

**asyncio**

(any Markdown)
<!-- /tabs -->
"""

from __future__ import annotations

import re
import textwrap

_REGION = re.compile(r"^<!-- tabs -->\n(?P<inside>.*?)^<!-- /tabs -->$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^\*\*(.+)\*\*$\n", re.MULTILINE)


def tabbed(markdown: str) -> str:
    """Return a page with its tabs.

    Raises:
        ValueError: something stands before the first title, or there is only one.
    """
    return _REGION.sub(_tabs, markdown)


def _tabs(found: re.Match[str]) -> str:
    before, *parts = _TITLE.split(found["inside"])
    if before.strip() or len(parts) < 4:
        raise ValueError(f"tabs begin with a **Title**, and are two or more: {found[0][:100]!r}")
    titles, texts = parts[::2], parts[1::2]
    return "\n\n".join(
        f'=== "{title}"\n\n{textwrap.indent(text.strip(), "    ")}'
        for title, text in zip(titles, texts, strict=True)
    )
