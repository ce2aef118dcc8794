"""The offsets groups have stored at one broker, with the marks of resets (ConsumerOffsetManager).

A reset is the stored offset at once; commits are ignored until the queue's next pull, which is
told the new offset and takes the mark away. Offsets reach the disk every five seconds, for the
first time ten seconds after the broker's start, and when it is stopped; a broker that is killed
comes back with those. Marks of resets, and where pulls ended, are memory only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

FIRST_FLUSH = 10.0  # seconds from the start; BrokerController.initializeBrokerScheduledTasks
FLUSH = 5.0  # seconds between two; flushConsumerOffsetInterval

_Table = dict[tuple[str, str], dict[int, int]]


class Offsets:
    """Offsets by group, topic and queue id. Not thread-safe."""

    def __init__(self) -> None:
        self._stored: _Table = defaultdict(dict)
        self._on_disk: _Table = {}
        self.boot()

    # --- the disk ------------------------------------------------------------------------------

    def boot(self) -> None:
        """The broker starts: what was memory only is gone."""
        self._pulled: _Table = defaultdict(dict)
        self._resets: dict[tuple[str, str, int], int] = {}
        self._flush_at: float | None = None

    def elapse(self, now: float) -> None:
        """It is `now`: write to disk what was due. To be told before anything changes."""
        if self._flush_at is None:
            self._flush_at = now + FIRST_FLUSH
        if now >= self._flush_at:
            self.flush()
            self._flush_at += FLUSH * (1 + (now - self._flush_at) // FLUSH)
        # A real broker's timer does not care for the wall clock; one put back must not stop ours.
        self._flush_at = min(self._flush_at, now + FIRST_FLUSH)

    def flush(self) -> None:
        """Write everything to disk, as a broker that is stopped does."""
        self._on_disk = {place: dict(offsets) for place, offsets in self._stored.items()}

    def lose(self) -> None:
        """The broker was killed: only what is on disk is left."""
        self._stored = defaultdict(dict, {p: dict(offsets) for p, offsets in self._on_disk.items()})

    # --- what groups stored --------------------------------------------------------------------

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
