"""A message to send: checked when it is made, so that the error comes where the mistake is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import lru_cache
from typing import Any, Self

from orderly.config.arguments import check_topic
from orderly.errors import ConfigError, InvalidMessage
from orderly.model import NO_PROPERTIES
from orderly.protocol.properties import KEYS, RESERVED, SHARDING_KEY, TAGS, encode_properties
from orderly.protocol.topics import APPEARS_LATER

# The usual class first: asking an abstract one takes as long as the rest of the check.
_MAPPINGS, _COLLECTIONS = (dict, Mapping), (tuple, Collection)


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """A message to send.

    Args:
        topic: 1-127 characters of `%|a-zA-Z0-9_-`.
        body: 1 byte to 4 MiB; a str is written as UTF-8.
        sharding_key: messages with the same key go to the same queue, in order. A `str`, or an
            `int` (its decimal text under a hash selector, its value under numeric mod).
        tags: one tag, for the consumer's filter.
        keys: words for the broker's index; without spaces.
        properties: further properties, kept by the broker. RocketMQ's own names are refused.

    Raises:
        InvalidMessage: a broker would refuse, drop or cut the message. (A send also checks the
            size, because the limit is the producer's, and the properties again, because a dict can
            change.)
    """

    topic: str
    body: bytes
    sharding_key: str | int | None = None
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)

    def __init__(  # noqa: PLR0917 - the fields, in their order
        self,
        topic: str,
        body: bytes | str,
        sharding_key: str | int | None = None,
        tags: str | None = None,
        keys: Collection[str] = (),
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        if not isinstance(topic, str):
            raise InvalidMessage(f"the topic must be a str, not {type(topic).__name__}")
        _check_topic(topic)
        if sharding_key is not None:
            _check_key(sharding_key)
        if tags is not None:
            _check_tags(tags)
        _set_topic(self, topic)
        _set_body(self, body if body.__class__ is bytes and body else _bytes_of(body))
        _set_key(self, sharding_key)
        _set_tags(self, tags)
        _set_keys(self, () if keys == () else _index_keys(keys))
        _set_properties(self, properties)
        if properties is not NO_PROPERTIES:
            check_names(properties)
            encode_properties(properties)

    @classmethod
    def of_json(
        cls,
        topic: str,
        value: object,
        sharding_key: str | int | None = None,
        *,
        tags: str | None = None,
        keys: Collection[str] = (),
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Self:
        """Make a message whose body is JSON, as a listener with `decode=` reads it.

        Args:
            topic: see the class.
            value: any JSON value, a pydantic model, a msgspec Struct or a dataclass, also inside
                lists and dicts. Fields of a model are written under their aliases.
            sharding_key: see the class.
            tags: see the class.
            keys: see the class.
            properties: see the class.

        Raises:
            InvalidMessage: a value that JSON does not have, such as NaN; or as for the class.
        """
        return cls(topic, json_of(value), sharding_key, tags, keys, properties)


# It is frozen for all others. (A slot's own setter takes 0.6 of the time of object.__setattr__.)
_set_topic, _set_body, _set_key, _set_tags, _set_keys, _set_properties = (
    vars(Message)[name].__set__
    for name in ("topic", "body", "sharding_key", "tags", "keys", "properties")
)


def json_of(value: object) -> bytes:
    """Write a value as JSON, in UTF-8 and without spaces.

    Raises:
        InvalidMessage: there is something in it that JSON does not have.
    """
    try:
        text = json.dumps(
            value, default=_as_json, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(
            f"the value cannot be written as JSON ({type(error).__name__}): pass JSON values,"
            " pydantic models, msgspec Structs or dataclasses, with times and numbers as text if"
            " needed"
        ) from error


def _as_json(value: Any) -> Any:
    """Called for what JSON does not have."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(value, "__struct_fields__"):
        import msgspec  # noqa: PLC0415  a program with a Struct has it

        return msgspec.to_builtins(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"JSON has no value for a {type(value).__name__}")


# --- what a broker would refuse, drop or cut ------------------------------------------------------


@lru_cache(maxsize=1024)
def _check_topic(topic: str) -> None:
    try:
        check_topic(topic)
    except ConfigError as error:
        raise InvalidMessage(str(error)) from error


def _bytes_of(body: object) -> bytes:
    if isinstance(body, str):
        try:
            body = body.encode()
        except UnicodeEncodeError as error:
            raise InvalidMessage(
                "the body is a str with a lone surrogate, which UTF-8 does not have: pass bytes"
            ) from error
    if not isinstance(body, bytes) or not body:
        raise InvalidMessage(
            "the body must be bytes or a str, and not empty; it is"
            f" {'empty' if body in (b'', '') else f'of type {type(body).__name__}'}"
        )
    return body


def _check_key(key: object) -> None:
    if isinstance(key, str):
        _check_text(SHARDING_KEY, key)
    elif isinstance(key, bool) or not isinstance(key, int):
        raise InvalidMessage(f"the sharding key must be a str or an int, not {key!r}")


def _check_tags(tags: object) -> None:
    if not isinstance(tags, str) or "||" in tags or tags != tags.strip():
        raise InvalidMessage(
            f"tags must be one tag, without '||' and spaces around it, not {tags!r}:"
            " consumers could not select it"
        )
    _check_text(TAGS, tags)


def _check_text(name: str, text: str) -> None:
    """Refuse what a property cannot hold; a word of ASCII letters and digits can be held."""
    if not (text.isalnum() and text.isascii()):
        encode_properties({name: text})


def _index_keys(keys: object) -> tuple[str, ...]:
    several = isinstance(keys, _COLLECTIONS) and not isinstance(keys, str)
    if not several or not all(isinstance(key, str) for key in keys):  # type: ignore[attr-defined]
        raise InvalidMessage(f"keys must be a tuple of str, not {keys!r}")
    found = tuple[str, ...](keys)  # type: ignore[arg-type]
    if any(not key or key.split() != [key] for key in found):
        raise InvalidMessage(f"a key in {found!r} is empty or holds a space, which separates keys")
    _check_text(KEYS, " ".join(found))
    return found


def stored_properties(message: Message) -> dict[str, str]:
    """The properties that a message is stored with, but for those that its sender adds."""
    found = dict(message.properties)
    if message.sharding_key is not None:
        found[SHARDING_KEY] = str(message.sharding_key)
    if message.tags is not None:
        found[TAGS] = message.tags
    if message.keys:
        found[KEYS] = " ".join(message.keys)
    return found


def check_names(properties: Mapping[str, str]) -> None:
    """Refuse names that RocketMQ uses itself; the send asks again, for a dict can be changed.

    Raises:
        InvalidMessage: naming them.
    """
    if not isinstance(properties, _MAPPINGS):
        raise InvalidMessage(
            f"properties must be a dict of str to str, not {type(properties).__name__}"
        )
    later = sorted(APPEARS_LATER.intersection(properties))
    if later:
        raise InvalidMessage(
            f"with property {later[0]} the broker would show the message later, behind messages"
            " that were sent after it, but an ordered stream has no delayed or transactional"
            " messages. Leave the property out, or send the message with another client to a topic"
            " of its own"
        )
    reserved = RESERVED.intersection(properties)
    if reserved:
        raise InvalidMessage(
            f"RocketMQ uses the property names {sorted(reserved)} itself; choose others"
            " (tags, keys and sharding_key are fields of Message)"
        )
