"""A parked key: which keys can be parked, and what is on record of one.

Keys are written as JSON into records and properties, so that any tool can show them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any

from orderly.errors import ProtocolError
from orderly.foreign_text import key_digest
from orderly.protocol.body import NATURAL, JsonKind
from orderly.protocol.java_json import dumps

Key = str | int
MOST_OF_KEY = 1024  # bytes as JSON; so a record has room for two hundred of the longest
_INT_BITS = 63
_PARKED_FIELDS = 5  # of a parked key, as it is written


@dataclass(frozen=True, slots=True)
class ParkedKey:
    """One key that waits in the park topic.

    Attributes:
        key: of the lane.
        next: source offset of its first message that is not settled.
        at: position in the park queue from which on its messages are found.
        messages, size: how many are parked, and their bytes. What was appended just before an
            owner ended may be missing, and what a reset brings again.
        generation: of the source topic that `next` counts in.
        counted_to: source offset after the last message that is counted; 0: not known. An heir
            that appends messages below it again does not count them again.

    An entry holds the last two beside the list that the other fields are written as: older releases
    read that list only.
    """

    key: Key
    next: int
    at: int
    messages: int = 0
    size: int = 0
    generation: int = 0
    counted_to: int = 0


def key_of(key: Hashable) -> Key | None:
    """Return a lane's key as it is parked, or None: such a key cannot be.

    Parked can be a str of at most 1024 bytes as JSON and without lone surrogates, and an int of
    64 bits; a bool becomes an int, a member of an enum with such values its value.
    """
    if isinstance(key, int):
        return int(key) if key.bit_length() <= _INT_BITS else None
    if not isinstance(key, str):
        return None
    text = str.__str__(key)
    try:
        return text if len(dumps(text)) <= MOST_OF_KEY else None
    except ProtocolError:  # a lone surrogate
        return None


def key_tag(key: Key) -> str:
    """Return the tag of a key's parked messages, by which brokers find them: 16 hex digits.

    Two keys may share one: compare the key, too.
    """
    return key_digest(key)


def _read_key(value: Any, what: str) -> Key:
    key = key_of(value) if type(value) in (str, int) else None
    if key is None:
        raise ProtocolError(f"{what} is not a key that can be parked: {value!r:.80}")
    return key


def _read_parked(value: Any, _what: str) -> ParkedKey:
    if not isinstance(value, list) or len(value) != _PARKED_FIELDS:
        raise ProtocolError(f"not a parked key: {value!r:.80}")
    numbers = [NATURAL.read(number, "a number of a parked key") for number in value[1:]]
    return ParkedKey(KEY.read(value[0], "a parked key's first field"), *numbers)


def _write_parked(parked: ParkedKey) -> list[Any]:
    return [parked.key, parked.next, parked.at, parked.messages, parked.size]


KEY = JsonKind(_read_key)
PARKED_KEY = JsonKind(_read_parked, _write_parked)
WrittenKey = Annotated[Key, KEY]
