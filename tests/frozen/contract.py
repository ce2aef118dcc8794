"""The golden files: what users, programs and other releases rely on, one fact a line, sorted.

Texts for people are not in them. What removes, renames or adds something on purpose rewrites them,
in a commit that says why, with a line in CHANGELOG.md:

    .venv/bin/python -m tests.frozen --write
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import unified_diff
from functools import partial
from pathlib import Path

from tests.frozen import documents, public, records, tables

GOLDEN = Path(__file__).parent / "golden"
FACTS: Mapping[str, Callable[[], Iterable[str]]] = {
    **{f"names/{page.stem}": partial(public.facts, page) for page in public.PAGES},
    "names/errors": public.facts_of_errors,
    "commands": tables.facts_of_commands,
    "documents": documents.facts,
    "documents-spark": documents.facts_of_spark,
    "events": tables.facts_of_events,
    "metrics": tables.facts_of_metrics,
    "records": records.facts,
    "settings": tables.facts_of_settings,
}
ON_PURPOSE = (
    "If that is on purpose, rewrite the golden files with `.venv/bin/python -m tests.frozen"
    " --write`, in a commit that says why, and add a line to CHANGELOG.md."
)


def path_of(name: str) -> Path:
    """Where a golden file is."""
    return GOLDEN / f"{name}.txt"


def present(name: str) -> str:
    """What the file would say now."""
    return "".join(f"{line}\n" for line in sorted(set(FACTS[name]())))


def difference(name: str) -> str:
    """What changed since the file was written; "" if nothing did."""
    path, now = path_of(name), present(name)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    changed = unified_diff(
        before.splitlines(), now.splitlines(), f"frozen {name}", "now", lineterm="", n=0
    )
    return "\n".join(line for line in changed if not line.startswith("@@"))
