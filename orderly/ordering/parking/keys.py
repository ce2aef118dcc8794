"""The keys of one queue that wait in the park topic, and where their messages begin there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from orderly.protocol.parked_key import Key, ParkedKey, key_of, key_tag

__all__ = ["NOTHING_KEPT", "Kept", "Key", "ParkedKey", "ParkedKeys", "key_of", "key_tag"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is on record of a queue's parked keys.

    Attributes:
        parked: the keys, sorted.
        commands: position in the park queue up to which its commands are settled.
    """

    parked: tuple[ParkedKey, ...] = ()
    commands: int = 0


NOTHING_KEPT = Kept()


@dataclass(slots=True)
class _Newest:
    """The newest message noted of a key since the queue was taken."""

    offset: int
    position: int


class ParkedKeys:
    """A table of parked keys. Not thread-safe: the lock of its queue is around every call.

    Args:
        kept: what was inherited.
        generation: of the source topic; new keys are of this one.

    Attributes:
        commands: position in the park queue up to which its commands are settled.
        messages, size: parked altogether, and their bytes; see `ParkedKey`.
    """

    __slots__ = ("_counted", "_generation", "_keys", "_newest", "commands", "messages", "size")

    def __init__(self, kept: Kept = NOTHING_KEPT, generation: int = 0) -> None:
        self.commands = kept.commands
        self._generation = generation
        self.messages = 0
        self.size = 0
        self._keys: dict[Hashable, ParkedKey] = {}
        self._newest: dict[Hashable, _Newest] = {}
        # Source offsets that former owners have counted: what of them did not get as far as the
        # record of what is finished is appended again.
        self._counted: dict[Hashable, range] = {
            each.key: range(each.next, each.counted_to) for each in kept.parked
        }
        for parked in kept.parked:
            self._put(parked)

    def __len__(self) -> int:
        return len(self._keys)

    def parked(self, key: Hashable) -> bool:
        """Whether a key is parked."""
        return key in self._keys

    def get(self, key: Hashable) -> ParkedKey | None:
        """What is noted of a key, or None."""
        return self._keys.get(key)

    def is_former(self, key: Hashable) -> bool:
        """Whether a key was parked in a former generation of the topic.

        Its later messages count from 0 again. They wait until it is released or dropped: beside
        those that are parked nobody could tell which comes first.
        """
        parked = self._keys.get(key)
        return parked is not None and parked.generation != self._generation

    def snapshot(self) -> tuple[ParkedKey, ...]:
        """All of them, sorted: numbers first."""
        return tuple(sorted(self._keys.values(), key=_place))

    @property
    def kept(self) -> Kept:
        """What is to be on record."""
        return Kept(self.snapshot(), self.commands)

    def last_position(self, key: Hashable) -> int:
        """Position of the newest message noted of a parked key.

        Of an inherited key that got none since, it is where its messages begin: look on to the end.
        """
        newest = self._newest.get(key)
        return self._keys[key].at if newest is None else newest.position

    def note(self, key: Key, offset: int, position: int, size: int) -> None:
        """Note one message of a key that was appended to the park queue; the first parks the key.

        One that was appended again counts once, whoever appended it first. One below the key's
        `next` comes after the committed offset was set back: it is replayed again.

        Args:
            key: of its lane.
            offset: in the source queue.
            position: in the park queue.
            size: bytes.
        """
        before = self._keys.get(key)
        if before is None:
            before = ParkedKey(key, offset, position, generation=self._generation)
            self._counted.pop(key, None)
            self._newest.pop(key, None)
        newest = self._newest.get(key)
        highest = offset if newest is None else max(offset, newest.offset)
        counted = newest is not None and offset <= newest.offset
        is_new = not counted and offset not in self._counted.get(key, ())
        self._newest[key] = _Newest(highest, position)
        self._put(
            replace(
                before,
                next=min(before.next, offset),
                messages=before.messages + is_new,
                size=before.size + is_new * size,
                counted_to=max(before.counted_to, offset + 1),
            )
        )

    def settled(self, key: Key, next_offset: int, *, messages: int = 0, size: int = 0) -> None:
        """Note that a key's messages below `next_offset` need no replay any more.

        Args:
            key: a parked one.
            next_offset: source offset of the first one that does.
            messages: how many were settled now.
            size: their bytes.
        """
        before = self._keys[key]
        left, bytes_left = max(0, before.messages - messages), max(0, before.size - size)
        self._put(replace(before, next=next_offset, messages=left, size=bytes_left))

    def moved(self, key: Key, at: int) -> None:
        """Note that all messages of a key were appended again, from position `at` on."""
        self._put(replace(self._keys[key], at=at))

    def release(self, key: Key) -> None:
        """Forget a key: it is not parked any more."""
        self._count(self._keys.pop(key), -1)
        # What was newest of this key stays for `restore`; of those released earlier it goes.
        self._newest = {
            k: newest for k, newest in self._newest.items() if k in self._keys or k == key
        }

    def restore(self, parked: ParkedKey) -> None:
        """Put back what `get` returned: its end, or its progress, could not be recorded."""
        self._put(parked)

    def _put(self, parked: ParkedKey) -> None:
        before = self._keys.get(parked.key)
        if before is not None:
            self._count(before, -1)
        self._keys[parked.key] = parked
        self._count(parked, 1)

    def _count(self, parked: ParkedKey, sign: int) -> None:
        self.messages += sign * parked.messages
        self.size += sign * parked.size


def _place(parked: ParkedKey) -> tuple[bool, Key]:
    return isinstance(parked.key, str), parked.key
