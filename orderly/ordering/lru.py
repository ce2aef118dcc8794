"""A table that keeps what was noted last: bounded, the oldest entry first.

An OrderedDict: the first key of a dict is slow to find once many were deleted before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def put_latest(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Note `value` as the latest of `table`, and forget the oldest one beyond `most`."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
