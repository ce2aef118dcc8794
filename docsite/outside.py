"""Files of the site that lie outside of docs/: taken from where they are, never copied there."""

from __future__ import annotations

from pathlib import Path

_FILES = {
    "examples/index.md": "examples/README.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/design.md": "DESIGN.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "project/containers.md": "docker/README.md",
    "project/readme.zh-CN.md": "README.zh-CN.md",
    "proof/benchmarks.md": "benchmarks/README.md",
    "proof/figures.md": "benchmarks/figures.md",
    "proof/peers.svg": "benchmarks/peers.svg",  # the picture of the page above
    "proof/reliability.md": "benchmarks/RELIABILITY.md",
}


def files_outside(root: Path) -> dict[str, str]:
    """By place on the site the file of the repository; each example's page is among them."""
    examples = sorted(path.parent.name for path in root.glob("examples/*/README.md"))
    files = _FILES | {f"examples/{name}.md": f"examples/{name}/README.md" for name in examples}
    return {place: path for place, path in files.items() if (root / path).exists()}
