"""Pages and their fenced code blocks, with what a comment before a block says about it.

    <!-- block: ctrl-c; numbers -->

The words: `skip: REASON`, `ctrl-c`, `exit CODE …`, `raises ERROR`, `numbers`,
`background`, `parsed`, `spark`.
"""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHINESE = "README.zh-CN.md"  # its blocks must equal README.md's: they run once
SINGLE = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md")
MANY = ("docs/**/*.md", "docker/*.md", "benchmarks/*.md", "examples/**/README.md")
WORDS = {"skip", "ctrl-c", "exit", "raises", "numbers", "background", "parsed", "spark"}

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_MARK = re.compile(r"^\s*<!--\s*block:\s*(.*?)\s*-->\s*$")
_TITLE = re.compile(r"title=\"([^\"]+)\"")
_FIRST_LINE = re.compile(r"^# ([\w./-]+\.(?:py|toml|yaml|yml|json|ini))$")


class BadPage(AssertionError):
    """A page that breaks a convention; the text says where."""


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: the page's path in the repository.
        line: where its first line of text stands, from 1.
        number: which of the page's blocks it is, from 1.
        tag: the language after the fence.
        file: the name of the file that it shows, or "".
        marks: what the comment before it says, by word.
    """

    page: str
    line: int
    number: int
    tag: str
    text: str
    file: str = ""
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def where(self):
        return f"{self.page}:{self.line}"


def pages():
    """The paths of all pages, relative to the repository, in order."""
    found = {ROOT / name for name in SINGLE}
    found |= {path for pattern in MANY for path in ROOT.glob(pattern)}
    return sorted(str(path.relative_to(ROOT)) for path in found if path.is_file())


def blocks_of(page):
    """The blocks of a page."""
    return parse(page, (ROOT / page).read_text(encoding="utf-8"))


def parse(page, text):
    """The blocks of a page with that text."""
    blocks, opened, mark, lines = [], None, "", []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, start, lines = fence, number, []
            elif found := _MARK.match(line):
                mark = found[1]
            elif line.strip():
                _refuse(mark, f"{page}:{number}: a block's comment stands before no block")
        elif fence and _closes(fence, opened):
            blocks.append(_block(page, start, len(blocks) + 1, opened["info"], mark, lines))
            opened, mark = None, ""
        else:
            lines.append(line)
    _refuse(opened, f"{page}: the last block is not closed")
    return blocks


def _closes(fence, opened):
    return fence["fence"].startswith(opened["fence"]) and not fence["info"].strip()


def _block(page, start, number, info, mark, lines):
    tag = info.split()[0] if info.split() else ""
    _refuse(not tag, f"{page}:{start}: give the block a language; `text` if it is no code")
    text = textwrap.dedent("\n".join(lines)) + "\n"
    marks = _marks(mark, f"{page}:{start}")
    title = _TITLE.search(info) or _FIRST_LINE.match(text.partition("\n")[0])
    return Block(page, start + 1, number, tag, text, title[1] if title else "", marks)


def _marks(mark, where):
    mark, skips, reason = mark.partition("skip:")  # which may have a `;` of its own
    found = {"skip": reason.strip()} if skips else {}
    for part in filter(None, (part.strip() for part in mark.split(";"))):
        word, _, rest = part.partition(" ")
        _refuse(word not in WORDS, f"{where}: {word!r} is no word for a block; there are {WORDS}")
        found[word] = rest.strip()
    _refuse(not found.get("skip", "why"), f"{where}: say why it is skipped: `skip: REASON`")
    return found


def _refuse(condition, text):
    if condition:
        raise BadPage(text)
