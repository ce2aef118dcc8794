"""A message on the C side, freed whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orderly.errors import InvalidMessage, NativeCallFailed
from orderly.model import Message
from orderly.native.library import Library
from orderly.producer.pending import check_message
from orderly.protocol import properties as names
from orderly.protocol.properties import encode_properties


def properties_of(message: Message, max_body: int) -> dict[str, str]:
    r"""Return all properties that a message is sent with, and check it.

    Raises:
        InvalidMessage: what any driver refuses; a NUL in a text, where C would end it.
    """
    check_message(message, max_body)
    given = {
        names.SHARDING_KEY: None if message.sharding_key is None else str(message.sharding_key),
        names.TAGS: message.tags,
        names.KEYS: " ".join(message.keys) or None,
    }
    properties = {name: text for name, text in given.items() if text is not None}
    properties |= message.properties
    for name, text in encode_checked(properties).items():
        if "\0" in name or "\0" in text:
            raise InvalidMessage(f"property {name!r} holds \\0, where a C text ends; leave it out")
    return properties


def encode_checked(properties: dict[str, str]) -> dict[str, str]:
    """Return `properties` if they can be sent; raises InvalidMessage."""
    encode_properties(properties)
    return properties


@contextmanager
def native_message(
    library: Library, topic: str, body: bytes, properties: dict[str, str]
) -> Iterator[int]:
    """Make a message for the C side; freed at the end.

    Raises:
        NativeCallFailed: the library did not take a part of it.
    """
    handle = library["CreateMessage"](topic.encode())
    if not handle:
        raise NativeCallFailed("CreateMessage gave no message: is memory short?")
    try:
        library.do("SetByteMessageBody", handle, body, len(body))
        for name, text in properties.items():
            library.do("SetMessageProperty", handle, name.encode(), text.encode())
        yield handle
    finally:
        library["DestroyMessage"](handle)
