"""The command that installs an extra of this package, from where the package itself came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAME = "rocketmq-orderly"


def install(*extras: str) -> str:
    """Return the command for a shell.

    A package from a checkout or from a file names that place: a registry may not have it. Pip
    writes the place down (`direct_url.json`, PEP 610).

    Args:
        extras: their names, as in "cli".

    Returns:
        For example "pip install 'rocketmq-orderly[cli]'", or "pip install -e '/src/orderly[cli]'".
    """
    return command(origin(), extras)


def origin() -> dict[str, Any]:
    """Return what pip noted about the place; {} if the package came from a registry."""
    import json  # noqa: PLC0415  only where something is missing, as are the next
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        text = distribution(NAME).read_text("direct_url.json")
        found = json.loads(text or "{}")
    except (PackageNotFoundError, OSError, ValueError):  # none, or not ours to read
        return {}
    return found if isinstance(found, dict) else {}


def command(place: dict[str, Any], extras: tuple[str, ...]) -> str:
    """Return the command for a package from that place; a place that is gone does not count."""
    import shlex  # noqa: PLC0415  as above
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    suffix = f"[{','.join(extras)}]"
    url = urlsplit(str(place.get("url", "")))
    path = Path(unquote(url.path))
    if vcs := place.get("vcs_info"):
        source = f"{vcs.get('vcs')}+{url.geturl()}@{vcs.get('commit_id')}"
        return f"pip install {shlex.quote(f'{NAME}{suffix} @ {source}')}"
    if url.scheme != "file" or not path.exists():
        return f"pip install {shlex.quote(NAME + suffix)}"
    editable = "-e " if place.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{path}{suffix}')}"
