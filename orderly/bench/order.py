"""Was the order kept? Each key's numbers must come as 0, 1, 2, …; repeats are allowed. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

_MOST_MISSING = 100_000  # of a key at once; a topic's oldest messages may be deleted


@dataclass(slots=True)
class _Key:
    """What came of one key: all below `next` but for what is `missing`."""

    next: int = 0
    missing: set[int] = field(default_factory=set)
    repeats: int = 0
    inversions: int = 0

    def came(self, number: int) -> None:
        if number > self.next:
            self.missing.update(range(max(self.next, number - _MOST_MISSING), number))
            self.next = number + 1
        elif number in self.missing:  # its successor was handled before it
            self.missing.discard(number)
            self.inversions += 1
        else:
            self.repeats += 1


class OrderCheck:
    """Judges messages as handlers see them.

    Thread-safe as long as each key has one thread at a time, which is what is promised.
    """

    def __init__(self) -> None:
        self._keys: dict[Hashable, _Key] = {}
        self._offsets: dict[Hashable, int] = {}
        self._fallen: list[Hashable] = []

    def came(self, key: Hashable, number: int) -> None:
        """Note that message `number` of `key` is being handled."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys.setdefault(key, _Key())
        if number == found.next:
            found.next = number + 1
        else:
            found.came(number)

    def came_unnumbered(self, key: Hashable, offset: int) -> None:
        """Note a message that has no number: the offsets of a key in a queue must rise."""
        if offset <= self._offsets.get(key, -1):
            self._fallen.append(key)
        self._offsets[key] = offset

    @property
    def inversions(self) -> int:
        """Messages that came behind a later one of their key."""
        numbered = sum(key.inversions for key in list(self._keys.values()))
        return numbered + len(self._fallen)

    @property
    def repeats(self) -> int:
        """Messages that had come before: delivered, or stored, more than once."""
        return sum(key.repeats for key in list(self._keys.values()))

    @property
    def missing(self) -> int:
        """Messages that have not come, though a later one of their key has."""
        return sum(len(key.missing) for key in list(self._keys.values()))

    @property
    def keys(self) -> int:
        """How many keys there were."""
        return len(self._keys) + len(self._offsets)
