"""How long what vanished is remembered: a scan may miss a topic that is there in the next one."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Protocol, TypeVar

PATIENCE = 2  # scans


class Remembered(Protocol):
    """What is remembered of a topic, a group or a pair of them."""

    absent: int  # scans in a row without it; who finds it again sets it to 0


K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Remembered)


def forget_absent(memories: dict[K, R], present: Collection[K]) -> None:
    """Count a scan for those that are not `present`, and drop them when they were away too long."""
    for key in memories.keys() - set(present):
        memories[key].absent += 1
        if memories[key].absent >= PATIENCE:
            del memories[key]
