"""Say what changed in the contract: `python -m tests.frozen`; with --write take it as it is now."""

from __future__ import annotations

import sys

from tests.frozen.contract import FACTS, GOLDEN, ON_PURPOSE, difference, path_of, present


def main(arguments: list[str]) -> int:
    """0: nothing changed, or it is written; 1: something did."""
    if arguments == ["--write"]:
        write()
        return 0
    changed = [text for text in map(difference, FACTS) if text]
    print("\n\n".join([*changed, ON_PURPOSE] if changed else ["nothing changed"]))
    return int(bool(changed))


def write() -> None:
    """Write all golden files; what is none any more goes."""
    for name in FACTS:
        path_of(name).parent.mkdir(parents=True, exist_ok=True)
        path_of(name).write_text(present(name), encoding="utf-8")
    for path in GOLDEN.rglob("*.txt"):
        if path.relative_to(GOLDEN).with_suffix("").as_posix() not in FACTS:
            path.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
