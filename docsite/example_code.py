"""The files of an example, below its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml"}


def files_of(folder: Path) -> Iterator[Path]:
    """The files to show of an example; of the folder of all examples those that are one file."""
    found = folder.glob("*") if folder.name == "examples" else folder.rglob("*")
    for path in sorted(found):
        if path.suffix in _LANGUAGES and path.read_text(encoding="utf-8").strip():
            yield path


def shown(folder: Path) -> str:
    """The files as blocks that can be opened."""
    blocks = [_block(path, path.relative_to(folder)) for path in files_of(folder)]
    return "\n\n".join(("## Files", *blocks))


def _block(path: Path, name: Path) -> str:
    lines = [f"~~~~{_LANGUAGES[path.suffix]}", *path.read_text(encoding="utf-8").splitlines()]
    inside = "\n".join(f"    {line}".rstrip() for line in (*lines, "~~~~"))
    return f'??? quote "{name}"\n\n{inside}'
