"""The first of many: a report of hundreds of groups stays short, and says what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Top(Generic[T]):
    """The first of many, and all the others."""

    shown: tuple[T, ...]
    left_out: int

    def __bool__(self) -> bool:
        return bool(self.shown)


def first(many: Iterable[T], most: int, order: Callable[[T], Any]) -> Top[T]:
    """The `most` smallest by `order`, smallest first; of equal ones those that come first."""
    total = 0

    def counted() -> Iterable[T]:
        nonlocal total
        for each in many:
            total += 1
            yield each

    shown = tuple(nsmallest(most, counted(), key=order))
    return Top(shown, total - len(shown))
