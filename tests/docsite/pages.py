"""Built pages, read: what can be linked to, where links lead, what a browser would fetch."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

NO_TEXT = {"code", "pre", "script", "style"}
FETCHED = {"src", "srcset", "poster", "data", "background"}


class Page(HTMLParser):
    """One page.

    Attributes:
        ids: what can be linked to.
        links: where its links lead.
        fetched: what a browser gets for it by itself.
        text: what is read on it, without code.
    """

    def __init__(self, path):
        super().__init__()
        self.path, self.ids, self.links, self.fetched = path, set(), [], []
        self.text, self._inside = "", []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self._inside += [tag] * (tag in NO_TEXT)
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.fetched += [given[name] for name in FETCHED & set(given)]
        if "href" in given:
            (self.links if tag == "a" else self.fetched).append(given["href"])

    def handle_endtag(self, tag):
        if tag in NO_TEXT:
            self._inside.pop()

    def handle_data(self, data):
        self.text += "" if self._inside else data


def read(folder):
    """All pages of a folder, by path."""
    return {path: Page(path) for path in sorted(Path(folder).rglob("*.html"))}


def dead_links(pages):
    """Links to files or anchors that are not there, as (page, link).

    404.html is left out: servers show it at any address, so its links begin at their root.
    """
    judged = [page for page in pages.values() if page.path.name != "404.html"]
    return [(p.path.name, link) for p in judged for link in p.links if dead(link, p, pages)]


def dead(link, page, pages):
    """Whether a link leads nowhere within the site; links out of it are not judged."""
    if "://" in link or link.startswith(("mailto:", "javascript:")):
        return False
    target, anchor = urldefrag(link)
    path = (page.path.parent / unquote(target)).resolve() if target else page.path
    if not path.is_file():
        return True
    known = pages[path].ids if path in pages else set()
    return bool(anchor) and unquote(anchor) not in known
