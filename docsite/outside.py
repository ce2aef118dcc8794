"""Pages of the site that lie outside of docs/: shown where they are, never copied."""

from __future__ import annotations

from pathlib import Path

_PAGES = {
    "examples/index.md": "examples/README.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/design.md": "DESIGN.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "project/containers.md": "docker/README.md",
    "project/readme.zh-CN.md": "README.zh-CN.md",
    "proof/benchmarks.md": "benchmarks/README.md",
    "proof/reliability.md": "benchmarks/RELIABILITY.md",
}


def pages_outside(root: Path) -> dict[str, str]:
    """By place on the site the file of the repository; each example's page is among them."""
    examples = sorted(path.parent.name for path in root.glob("examples/*/README.md"))
    pages = _PAGES | {f"examples/{name}.md": f"examples/{name}/README.md" for name in examples}
    return {place: path for place, path in pages.items() if (root / path).exists()}
