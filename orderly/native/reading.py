"""A message that librocketmq delivers, as a value: copied, for afterwards it is gone."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from orderly.config.numbers import is_int
from orderly.errors import ConfigError, NativeLibraryError
from orderly.log import type_text
from orderly.model import MessageQueue, ReceivedMessage
from orderly.native.library import Library
from orderly.native.signatures import BODY_LENGTH
from orderly.protocol import properties as names

_KNOWN = (names.SHARDING_KEY, names.TAGS, names.KEYS, names.UNIQ_KEY, names.RETRY_TOPIC)


class Reading:
    """Copies messages out of the library. Thread-safe.

    Args:
        library: whose messages they are.
        properties: names of the program's own properties: the library tells those it is asked for.
        text_bodies: bodies hold no NUL. Releases up to 2.2.0 do not say how long a body is, so
            what follows a NUL would be lost.

    Attributes:
        library: whose messages they are.

    Raises:
        NativeLibraryError: the library cannot tell the length of a body, and bodies may need it.
    """

    def __init__(self, library: Library, properties: Iterable[str], *, text_bodies: bool) -> None:
        if BODY_LENGTH not in library and not text_bodies:
            raise NativeLibraryError(
                f"librocketmq at {library.path} lacks {BODY_LENGTH}, so a body would end at its"
                " first NUL: build it from its project's newest sources, say text_bodies=True if"
                " no body of yours holds one, or use OrderlyConsumer"
            )
        self.library = library
        self._names = tuple(dict.fromkeys((*_KNOWN, *properties)))

    def message(self, handle: object) -> ReceivedMessage:
        """Return the message.

        Its queue's broker is "": GetMessageStoreHost answers with memory that is freed already.

        Raises:
            ConfigError: `handle` cannot be a pointer.
        """
        if not is_int(handle) or handle <= 0:
            raise ConfigError(f"a message of librocketmq is a pointer, not {type_text(handle)}")
        library = self.library
        topic = self._text("GetMessageTopic", handle)
        return ReceivedMessage(
            queue=MessageQueue(topic, "", library["GetMessageQueueId"](handle)),
            queue_offset=library["GetMessageQueueOffset"](handle),
            body=self._body(handle),
            properties=self._properties(handle),
            message_id=self._text("GetMessageId", handle),
            offset_message_id="",
            born_time=library["GetMessageBornTimestamp"](handle) / 1000,
            store_time=library["GetMessageStoreTimestamp"](handle) / 1000,
            born_host="",
            store_host="",
            reconsume_times=library["GetMessageReconsumeTimes"](handle),
            flag=0,
            sys_flag=0,
            physical_offset=library["GetMessageCommitLogOffset"](handle),
            stored_size=library["GetMessageStoreSize"](handle),
        )

    def _body(self, handle: int) -> bytes:
        start = self.library["GetMessageBody"](handle)
        if not start:
            return b""
        if BODY_LENGTH not in self.library:
            return ctypes.string_at(start)
        return ctypes.string_at(start, self.library[BODY_LENGTH](handle))

    def _properties(self, handle: int) -> dict[str, str]:
        read = self.library["GetMessageProperty"]
        found = {name: _decoded(read(handle, name.encode())) for name in self._names}
        return {name: text for name, text in found.items() if text}

    def _text(self, call: str, handle: int) -> str:
        return _decoded(self.library[call](handle))


def _decoded(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace")
