"""The offsets groups have stored at one broker, with the marks of resets (ConsumerOffsetManager).

A reset is the stored offset at once; commits are ignored until the queue's next pull, which is
told the new offset and takes the mark away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

_Table = dict[tuple[str, str], dict[int, int]]


class Offsets:
    """Offsets by group, topic and queue id; they outlive a restart. Not thread-safe."""

    def __init__(self) -> None:
        self._stored: _Table = defaultdict(dict)
        self._pulled: _Table = defaultdict(dict)
        self._resets: dict[tuple[str, str, int], int] = {}

    def stored(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or None."""
        return self._stored.get((group, topic), {}).get(queue_id)

    def all(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        """All committed offsets, by group and topic."""
        return self._stored

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store an offset, whatever it is; False: ignored, since a reset waits to be pulled."""
        if (group, topic, queue_id) in self._resets:
            return False
        self._stored[group, topic][queue_id] = offset
        return True

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's last pull ended; 0 if there was none."""
        return self._pulled.get((group, topic), {}).get(queue_id, 0)

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember where a pull ended."""
        self._pulled[group, topic][queue_id] = offset

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset and mark it as a reset."""
        self._resets[group, topic, queue_id] = offset
        self._stored[group, topic][queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Take the mark away and return its offset; None if there is none."""
        return self._resets.pop((group, topic, queue_id), None)

    def topics_of(self, group: str) -> set[str]:
        """Topics in which the group has an offset."""
        return {topic for one, topic in self._stored if one == group}

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have an offset in the topic."""
        return {group for group, one in self._stored if one == topic}

    def forget(self, topic: str) -> None:
        """Delete the offsets of a topic."""
        self._forget(1, topic)

    def forget_group(self, group: str) -> None:
        """Delete the offsets of a group."""
        self._forget(0, group)

    def _forget(self, place: int, name: str) -> None:
        for table in (self._stored, self._pulled):
            for key in [key for key in table if key[place] == name]:
                del table[key]
        self._resets = {key: at for key, at in self._resets.items() if key[place] != name}
