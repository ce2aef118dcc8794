"""PURE: which row a message has, and how its key and its id are written there."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from orderly.config.arguments import check_flag, check_kind, check_text
from orderly.config.numbers import check_count, check_number
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage
from orderly.once.rule import Arrival

MAX_KEY = 200  # characters of a key that is stored as it is
_ID_BYTES = 12


class Owner(Protocol):
    """What is asked of a handler's context. A `ConsumeContext` is one."""

    @property
    def group(self) -> str:
        """The consumer group."""

    @property
    def token(self) -> int | None:
        """Rises with each owner of the queue."""

    @property
    def generation(self) -> int:
        """How often the topic was made anew."""

    @property
    def key(self) -> Hashable | None:
        """What orders the message; None: by its sharding key."""

    @property
    def redact_keys(self) -> bool:
        """Whether keys are not to be shown."""


_ASKED = ("group", "token", "generation", "key", "redact_keys")


@dataclass(frozen=True, slots=True)
class Place:
    """Which row: equal places share one."""

    group: str
    cluster: str
    topic: str
    broker: str
    queue_id: int
    generation: int
    key: str


@dataclass(frozen=True, slots=True)
class Naming:
    """How rows are named.

    Args:
        cluster: tells brokers of the same name in two clusters apart.
        generation: raised by 1 to begin anew with all rows; what the consumer counts is added.
        redact: store and log hashes of keys, not keys.

    Raises:
        ConfigError: a generation that is none, or an argument of another kind.
    """

    cluster: str = ""
    generation: int = 0
    redact: bool = False

    def __post_init__(self) -> None:
        check_text("cluster", self.cluster)
        check_flag("redact", self.redact)
        check_count("generation", self.generation, 0)
        check_number("generation", self.generation, 0, 2**31 - 1)

    def place(self, message: ReceivedMessage, owner: Owner) -> Place:
        """Return where the row of the message's key is.

        Raises:
            ConfigError: a key of a kind that has no lasting form, or an argument of another kind.
        """
        check_call(message, owner)
        queue = message.queue
        key = message.sharding_key if owner.key is None else owner.key
        text = key_text(key, redact=self.redact)
        where = (self.cluster, queue.topic, queue.broker_name, queue.queue_id)
        return Place(owner.group, *where, self.generation + owner.generation, text)


def check_call(message: ReceivedMessage, owner: Owner) -> None:
    """Refuse what is no message, or no context of a call.

    Raises:
        ConfigError: an argument of another kind.
    """
    check_kind("message", message, ReceivedMessage)
    if not all(hasattr(owner, name) for name in _ASKED):
        raise ConfigError(
            f"context must be the ConsumeContext or Attempt of the call, not {type(owner).__name__}"
        )


def arrival(message: ReceivedMessage, owner: Owner) -> Arrival:
    """Return what the rule is to know of a message."""
    # Not `message_id`: without this property that is the id of the stored copy, or of its batch.
    sent_as = message.properties.get("UNIQ_KEY")
    short = None if sent_as is None else _digest(sent_as.encode("utf-8", "surrogatepass"))
    return Arrival(message.queue_offset, owner.token, round(message.store_time * 1000), short)


def key_text(key: Hashable | None, *, redact: bool = False) -> str:
    """Write a key as text of at most MAX_KEY + 1 characters; different keys, different texts.

    "=" and the key if it is a short text; "" for None; otherwise "#" and a hash. The text is the
    same in every process and release.

    Args:
        key: None, a text, a number, bytes, or a tuple of these.
        redact: hash short texts, too.

    Raises:
        ConfigError: a key of another kind; nothing says that its form is the same tomorrow.
    """
    if key is None:
        return ""
    if isinstance(key, str) and not redact and _storable(key):
        return "=" + str.__str__(key)
    return "#" + hashlib.sha256(_exact(key)).hexdigest()


def _storable(text: str) -> bool:
    """Whether every database takes it: no NUL, no lone surrogates, not too long."""
    return (
        len(text) <= MAX_KEY
        and "\0" not in text
        and not any("\ud800" <= letter <= "\udfff" for letter in text)
    )


def _exact(key: Hashable) -> bytes:
    """Bytes that no other key has: kind, length, content."""
    match key:
        case None:
            kind, content = b"n", b""
        case str():
            kind, content = b"s", key.encode("utf-8", "surrogatepass")
        case bytes():
            kind, content = b"b", key
        case int():  # True is 1 to a lane, too
            kind, content = b"i", b"%d" % key
        case tuple():
            kind, content = b"t", b"".join(_exact(part) for part in key)
        case _:
            raise ConfigError(
                f"a key of type {type(key).__name__} cannot be stored: have `key=` return a text,"
                " a whole number, bytes or a tuple of these"
            )
    return b"%s%d:%s" % (kind, len(content), content)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()
