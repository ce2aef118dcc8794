"""Links of pages, as they are in the repository, made to lead to pages of the site.

A link to a file that has no page becomes its text, with the file's path behind it; MkDocs itself
checks all that lead to pages.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from docsite.outside import files_outside

_log = logging.getLogger("mkdocs.docsite")  # with --strict a warning of MkDocs' ends the build
_FENCE = r"^ *(?P<fence>```+|~~~+)[^`]*?\n.*?^ *(?P=fence) *$"
_TEXT = r"\[(?P<text>(?:[^\[\]`]|`[^`]*`|\[[^\[\]]*\](?:\([^()]*\))?)*)\]"
_LINK = re.compile(
    rf"(?P<code>{_FENCE}|`[^`\n]+`)|(?P<image>!?){_TEXT}\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_ELSEWHERE = re.compile(r"[a-z]+:|#|/")
_HOME = {"README.md": "index.md", "docs/": "index.md", "docs": "index.md"}


class Links:
    """Rewrites the links of pages.

    Args:
        root: the repository's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._outside = files_outside(root)
        self._pages = _HOME | {path: place for place, path in self._outside.items()}

    def rewritten(self, markdown: str, place: str) -> str:
        """Return a page's text with its links.

        Args:
            markdown: as in the repository.
            place: of the page on the site, as in "how-to/once.md".
        """
        return _LINK.sub(lambda found: self._one(found, place), markdown)

    def _one(self, found: re.Match[str], place: str) -> str:
        target = found["target"]
        if found["code"] or _ELSEWHERE.match(target):
            return found[0]
        text = self.rewritten(found["text"], place)  # a picture may be inside
        path, _, anchor = target.partition("#")
        page = self._page(self._path(path, place)) if path else place
        if page is None:
            return self._without_link(text, self._path(path, place), place)
        lead = posixpath.relpath(page, posixpath.dirname(place) or ".")
        return f"{found['image']}[{text}]({lead}{'#' if anchor else ''}{anchor})"

    def _path(self, path: str, place: str) -> str:
        """From the repository's folder."""
        here = self._outside.get(place, f"docs/{place}")
        return posixpath.normpath(posixpath.join(posixpath.dirname(here), path))

    def _page(self, path: str) -> str | None:
        if path in self._pages:
            return self._pages[path]
        return path.removeprefix("docs/") if path.startswith("docs/") else None

    def _without_link(self, text: str, path: str, place: str) -> str:
        if not (self._root / path).exists():
            _log.warning("%s: there is no file %s to link to", place, path)
        if text.strip("`") == posixpath.basename(path):
            return f"`{path}`"
        return text if path in text else f"{text} (`{path}`)"
