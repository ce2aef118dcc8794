"""What a package registry is told beside pyproject.toml: the long description, and the addresses.

README.md links to files of the repository, which a registry does not have. `repository` in
pyproject.toml says where they are; links then lead there, to the files of this version. While it is
empty there is no public repository: a link becomes its text, and a picture goes.

The build calls it (`[tool.hatch.metadata.hooks.custom]`); tests/packaging looks at the result.
"""

# ruff: noqa: INP001

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:|#")
# What holds in a checkout only: how to try it there, the other language, what is not released yet.
_HERE = re.compile(r"^<!-- repository -->\n.*?^<!-- /repository -->\n+", re.MULTILINE | re.DOTALL)


class LongDescription(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the project's table."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = str(self.config["repository"]).rstrip("/")
        text = long_description(readme, repository, metadata["version"], metadata["name"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = addresses(repository)


def addresses(repository: str) -> dict[str, str]:
    """Return the project's addresses by their names; none without a repository."""
    if not repository:
        return {}
    return {
        "Repository": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def long_description(readme: str, repository: str, version: str, name: str) -> str:
    """Return README.md as it is to be read far from the repository.

    Args:
        readme: its text.
        repository: the address, or "".
        version: whose files are linked to; its tag is "v" and it.
        name: of the package, which stands for a checkout's "." in what is installed.
    """

    def link(found: re.Match[str]) -> str:
        if _ELSEWHERE.match(found["target"]):
            return found[0]
        if not repository:
            return "" if found["image"] else found["text"]
        kind = "raw" if found["image"] else "blob"
        return (
            f"{found['image']}[{found['text']}]({repository}/{kind}/v{version}/{found['target']})"
        )

    parts = _CODE.split(_HERE.sub("", readme))
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts).replace("pip install '.[", f"pip install '{name}[")
