"""Numbers of things in words."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """1 queue, 2 queues.

    Args:
        number: of them.
        thing: one of them; its plural ends with an s.
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
