"""A message on its way: checked, its properties written, its body compressed, with its future."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from orderly.errors import InvalidMessage
from orderly.model import NO_PROPERTIES, Message, SendResult
from orderly.ordering.sending.batch import Entry
from orderly.producer.awaited import Awaited
from orderly.producer.future import SendFuture
from orderly.protocol import properties as names
from orderly.protocol.compression import Compression, compress_zlib
from orderly.protocol.message_types import APPEARS_LATER
from orderly.protocol.properties import MAX_SENT_PROPERTIES, encode_properties, utf8_size

_COMPRESSED = 1 | Compression.ZLIB << 8  # MessageSysFlag: compressed, and how
_BATCH_OVERHEAD = 22  # bytes a member of a batch takes beyond its body and properties
# The usual class first: asking an abstract one takes as long as the rest of the check.
_MAPPINGS, _COLLECTIONS = (dict, Mapping), (tuple, Collection)


@dataclass(slots=True, eq=False)
class PendingSend(Entry):
    """One message in an outbox.

    `properties` is the text sent; `body` is compressed if `sys_flag` says so.
    """

    body: bytes = b""
    properties: str = ""
    message_id: str = ""
    future: Future[SendResult] | Awaited = field(default_factory=SendFuture)
    claimed: bool = False

    def claim(self) -> bool:
        """Make the future uncancellable; False if it was cancelled before."""
        if not self.claimed:
            self.claimed = self.future.set_running_or_notify_cancel()
        return self.claimed


def check_message(message: Message, max_body: int) -> None:
    """Check what the broker would refuse, drop or cut, apart from the properties' characters.

    Raises:
        InvalidMessage: naming the field.
    """
    if not isinstance(message, Message):
        raise InvalidMessage(
            f"send takes a Message(topic, body, sharding_key=…), not {type(message).__name__}"
        )
    if not isinstance(message.topic, str):
        raise InvalidMessage(f"the topic must be a str, not {message.topic!r}")
    body, key = message.body, message.sharding_key
    if not isinstance(body, bytes) or not body:
        raise InvalidMessage(
            f"the body must be bytes, at least one; not {type(body).__name__}"
            f" of length {len(body) if isinstance(body, bytes | str) else '?'}"
        )
    if len(body) > max_body:
        raise InvalidMessage(
            f"the body has {len(body)} bytes, at most {max_body} are allowed"
            " (ProducerConfig.max_message_size, and maxMessageSize of the broker)"
        )
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        raise InvalidMessage(f"the sharding key must be a str or an int, not {key!r}")
    _check_tags_and_keys(message)
    if message.properties is not NO_PROPERTIES:
        _check_names(message.properties)


def _check_names(properties: Mapping[str, str]) -> None:
    if not isinstance(properties, _MAPPINGS):
        raise InvalidMessage(
            f"properties must be a dict of str to str, not {type(properties).__name__}"
        )
    later = sorted(APPEARS_LATER.intersection(properties))
    if later:
        raise InvalidMessage(
            f"with property {later[0]} the broker would show the message later, behind messages"
            " that were sent after it: a stream in order has no delayed or transactional messages."
            " Leave the property out, or send the message with another client to a topic of its own"
        )
    reserved = names.RESERVED.intersection(properties)
    if reserved:
        raise InvalidMessage(
            f"RocketMQ uses the property names {sorted(reserved)} itself; choose others"
            " (tags, keys and sharding_key are fields of Message)"
        )


def _check_tags_and_keys(message: Message) -> None:
    tags, keys = message.tags, message.keys
    if tags is not None and (not isinstance(tags, str) or "||" in tags or tags != tags.strip()):
        raise InvalidMessage(
            f"tags must be one tag, without '||' and spaces around it, not {tags!r}:"
            " consumers could not select it"
        )
    if keys == ():
        return
    several = isinstance(keys, _COLLECTIONS) and not isinstance(keys, str)
    if not several or not all(isinstance(key, str) for key in keys):
        raise InvalidMessage(f"keys must be a tuple of str, not {keys!r}")
    if any(not key or key.split() != [key] for key in keys):
        raise InvalidMessage(f"a key in {keys!r} is empty or holds a space, which separates keys")


def properties_text(message: Message, message_id: str) -> str:
    """Write all properties of a message, the user's and ours.

    Raises:
        InvalidMessage: an empty value, 0x01, 0x02 or a lone surrogate, or more than 32511 bytes
            (the broker adds its own and refuses more than 32767).
    """
    found = dict(message.properties)
    if message.sharding_key is not None:
        found[names.SHARDING_KEY] = str(message.sharding_key)
    if message.tags is not None:
        found[names.TAGS] = message.tags
    if message.keys:
        found[names.KEYS] = " ".join(message.keys)
    found[names.UNIQ_KEY] = message_id
    found[names.WAIT] = "true"
    text = encode_properties(found)
    size = utf8_size(text)
    if size > MAX_SENT_PROPERTIES:
        raise InvalidMessage(
            f"the properties take {size} bytes, at most {MAX_SENT_PROPERTIES} are allowed;"
            " put large values into the body"
        )
    return text


def batch_size(body: bytes, properties: str) -> int:
    """Bytes the message takes in a batch."""
    return _BATCH_OVERHEAD + len(body) + utf8_size(properties)


def compressed(body: bytes, above: int) -> tuple[bytes, int]:
    """Compress a body longer than `above` bytes (0: never), if that makes it shorter.

    Returns:
        The body to send and its flags.
    """
    if above and len(body) > above:
        smaller = compress_zlib(body)
        if len(smaller) < len(body):
            return smaller, _COMPRESSED
    return body, 0
