"""Writes the rules and dashboards that mixin/ describes: python docker/monitoring/render.py

A test (tests/integration/test_alert_rules.py) checks that what is committed is what it writes.
"""

from __future__ import annotations

from pathlib import Path

from mixin.dashboards import dashboards
from mixin.rules import rules

HERE = Path(__file__).parent


def rendered() -> dict[Path, str]:
    """Every rendered file's text, by its path."""
    files = {HERE / "rules" / "orderly.yaml": rules()}
    for uid, text in dashboards().items():
        files[HERE / "dashboards" / f"{uid}.json"] = text
    return files


def main() -> None:
    """Write them."""
    for path, text in rendered().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(HERE))


if __name__ == "__main__":
    main()
