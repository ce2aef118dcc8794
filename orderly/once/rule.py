"""Decides from the one row of a key whether a message's effect must still be applied.

    the message                              verdict         the row afterwards
    token below the row's                    STALE_OWNER     as it was
    offset not above the row's               REPEAT          its token, if higher
    the same, but stored later, id unknown   RECREATED       as it was
    offset above, id among the last ones     DUPLICATE       the message's
    offset above, or no row                  APPLY           the message's

It suffices because a key's messages come in order: everything at or below the row's offset was
applied, and nothing above it was. The rule and the names of rows are pure; `report_refusal`
writes to the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from orderly.config.arguments import check_count, check_flag, check_kind, check_number, check_text
from orderly.errors import ConfigError, LockLost, QueueRecreated
from orderly.log import get_logger, where
from orderly.model import ReceivedMessage

# Ids a row keeps. A producer's retry is stored before the key's next message is sent, and a batch
# is stored again whole: as many as ProducerConfig.batch_messages has by default.
RECENT = 64


class Verdict(Enum):
    """The decision about a message. Only APPLY is true, so `if once.apply(…):` works."""

    APPLY = "apply"
    """The first time: have the effect."""
    REPEAT = "repeat"
    """The same stored message came again: its effect is there."""
    DUPLICATE = "duplicate"
    """Stored a second time, under a new offset, by its producer's retry: its effect is there."""
    STALE_OWNER = "stale_owner"
    """A later owner of the queue has been at work on this key."""
    RECREATED = "recreated"
    """The row is about a queue that was deleted since; the offsets cannot be compared."""

    def __bool__(self) -> bool:
        return self is Verdict.APPLY


@dataclass(frozen=True, slots=True)
class Arrival:
    """What counts of a message.

    Attributes:
        offset: queue offset.
        token: of the queue's owner; None with order by queue.
        stored_at: milliseconds since the epoch, when the broker stored it.
        message_id: its sender's, shortened; None if it has none.
    """

    offset: int
    token: int | None
    stored_at: int
    message_id: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a key.

    Attributes:
        offset: of the last message that counted.
        token: the highest that was seen; None if none was.
        stored_at: the latest that was seen. Not always the last message's: a clock may be set back.
        recent: ids of the last messages, oldest first, at most RECENT.
    """

    offset: int
    token: int | None
    stored_at: int
    recent: tuple[str, ...] = ()


def decide(row: Row | None, arrival: Arrival) -> tuple[Verdict, Row]:
    """Return the verdict, and the row to store with the effect; equal to `row` if nothing changed.

    The row never goes back: neither its offset, nor its token, nor its time.

    Args:
        row: of the message's key; None if it has none yet.
        arrival: the message.
    """
    if row is None:
        return Verdict.APPLY, _advanced(Row(-1, None, 0), arrival, known=False)
    if arrival.token is not None and row.token is not None and arrival.token < row.token:
        return Verdict.STALE_OWNER, row
    known = arrival.message_id in row.recent
    if arrival.offset > row.offset:
        verdict = Verdict.DUPLICATE if known else Verdict.APPLY
        return verdict, _advanced(row, arrival, known=known)
    if arrival.stored_at > row.stored_at and not known:
        return Verdict.RECREATED, row
    return Verdict.REPEAT, replace(row, token=_higher(row.token, arrival.token))


def _advanced(row: Row, arrival: Arrival, *, known: bool) -> Row:
    new = () if known or arrival.message_id is None else (arrival.message_id,)
    return Row(
        arrival.offset,
        _higher(row.token, arrival.token),
        max(row.stored_at, arrival.stored_at),
        (*row.recent, *new)[-RECENT:],
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return one if other is None or (one is not None and one > other) else other


# --- which row a message has, and how its key and its id are written there ------------------------


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
        """How often the topic was recreated."""

    @property
    def key(self) -> Hashable | None:
        """What orders the message; None: by its sharding key."""

    @property
    def redact_keys(self) -> bool:
        """Whether keys are not to be shown."""


_ASKED = ("group", "token", "generation", "key", "redact_keys")


@dataclass(frozen=True, slots=True)
class RowPlace:
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
        cluster: distinguishes brokers of the same name in two clusters.
        generation: raised by 1 to start over with all rows; the consumer's count is added.
        redact: store and log hashes of keys, not keys.

    Raises:
        ConfigError: an invalid generation, or an argument of another kind.
    """

    cluster: str = ""
    generation: int = 0
    redact: bool = False

    def __post_init__(self) -> None:
        check_text("cluster", self.cluster)
        check_flag("redact", self.redact)
        check_count("generation", self.generation, 0)
        check_number("generation", self.generation, 0, 2**31 - 1)

    def place(self, message: ReceivedMessage, owner: Owner) -> RowPlace:
        """Return where the row of the message's key is.

        Raises:
            ConfigError: a key of a kind that has no lasting form, or an argument of another kind.
        """
        check_call(message, owner)
        queue = message.queue
        key = message.sharding_key if owner.key is None else owner.key
        text = key_text(key, redact=self.redact)
        where = (self.cluster, queue.topic, queue.broker_name, queue.queue_id)
        return RowPlace(owner.group, *where, self.generation + owner.generation, text)


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
        ConfigError: a key of another kind, because its text could change from one run to the next.
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
                f"a key of type {type(key).__name__} cannot be stored: let `key=` return a text, a"
                " whole number, bytes or a tuple of these"
            )
    return b"%s%d:%s" % (kind, len(content), content)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()


# --- what a verdict other than APPLY leads to: an event, or an error where none may be acked ------


_log = get_logger("orderly.once")


def report_refusal(
    verdict: Verdict,
    place: RowPlace,
    message: ReceivedMessage,
    token: int | None,
    found: tuple[int, int | None],
    *,
    redact: bool = False,
) -> None:
    """Emit the event of a refusal; nothing for APPLY.

    Args:
        verdict: of the message.
        place: its row's.
        message: which one.
        token: of the queue's owner here.
        found: offset and token of the row.
        redact: show no key.

    Raises:
        LockLost: STALE_OWNER.
        QueueRecreated: RECREATED.
    """
    if verdict:
        return
    key = place.key.removeprefix("=") if redact else place.key
    at = where(place.group, message.queue, message) | {"key": key, "redact": redact}
    emit = {Verdict.STALE_OWNER: _log.warning, Verdict.RECREATED: _log.error}.get(
        verdict, _log.info
    )
    emit(
        "message.not_applied",
        **at,
        verdict=verdict.value,
        message_id=message.message_id,
        token=token,
        generation=place.generation,
        applied_offset=found[0],
        applied_token=found[1],
    )
    if verdict is Verdict.STALE_OWNER:
        raise LockLost(
            f"{message.queue} is no longer ours: token {token} is below {found[1]}, which is stored"
            " with this key. If somebody deleted the group's state topic, tokens start over: stop"
            f" all members and start them with generation={place.generation + 1}"
        )
    if verdict is Verdict.RECREATED:
        raise QueueRecreated(
            f"{message.queue} at {message.queue_offset} was stored after the message last applied,"
            f" at {found[0]}: the topic was deleted and created again. Stop all members and start"
            f" them with generation={place.generation + 1}"
        )
