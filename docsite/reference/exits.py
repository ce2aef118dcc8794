"""Exit codes, from the command line's own table."""

from __future__ import annotations

from docsite.markdown import code, prose, table
from orderly.cli.commands import CODES, GENERAL


def general() -> str:
    """What the numbers mean everywhere."""
    return table(("exit code", "means"), [(str(n), prose(text)) for n, text in GENERAL.items()])


def by_command() -> str:
    """What they mean of each command."""
    numbers = sorted({number for codes in CODES.values() for number in codes})
    rows = [
        (code(words), *(prose(codes.get(number, "")) for number in numbers))
        for words, codes in CODES.items()
    ]
    return table(("command", *map(str, numbers)), rows)
