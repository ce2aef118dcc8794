"""Records as readable lines, `MARK VERSION KIND CHECKSUM JSON`, and their seals.

The checksum (CRC-32 in hex) covers kind and JSON. State records and the control records of a park
topic are written so, in the bodies of messages.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from orderly.errors import ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol import properties as names
from orderly.protocol.body import JsonKind, load_object
from orderly.protocol.java_json import dumps

_REST = rb" ([0-9]{1,6}) (?:([a-z]{1,16}) ([0-9a-f]{8}) )?"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A record of a release with another format."""

    version: int


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record.

    Attributes:
        name: in the line; up to 16 small letters.
        type: of the record.
        json: how it is written.
    """

    name: str
    type: type
    json: JsonKind[Any]


class LineFormat:
    """How the records of one topic are written.

    Args:
        mark: what each line begins with.
        version: of the format.
        most: bytes of a record.
        kinds: what there is.
    """

    def __init__(self, mark: str, version: int, most: int, kinds: Iterable[Kind]) -> None:
        self._mark = mark
        self._version = version
        self._most = most
        self._by_name = {kind.name: kind for kind in kinds}
        self._by_type = {kind.type: kind for kind in self._by_name.values()}
        self._line = re.compile(re.escape(mark.encode()) + _REST, re.ASCII)

    def kind_of(self, record: object) -> str:
        """The kind of a record."""
        return self._by_type[type(record)].name

    def encode(self, record: object) -> bytes:
        """Write a record.

        Raises:
            ProtocolError: it is too large, or holds text that is not valid.
        """
        kind = self._by_type[type(record)]
        content = dumps(kind.json.write(record))
        checksum = crc32(kind.name.encode() + content)
        line = f"{self._mark} {self._version} {kind.name} {checksum:08x} ".encode()
        if len(line) + len(content) > self._most:
            raise ProtocolError(
                f"a record of {self._mark} of {len(content)} bytes; at most {self._most} fit"
            )
        return line + content

    def decode(self, body: bytes) -> Any:
        """Read a record; one of another version becomes Unknown.

        Raises:
            ProtocolError: not such a record, or a damaged one.
        """
        line = self._line.match(body)
        if line is None:
            raise ProtocolError(f"not a record of {self._mark}: {body[:40]!r}")
        version, kind, checksum = line.groups()
        if int(version) != self._version:
            return Unknown(int(version))
        known = None if kind is None else self._by_name.get(kind.decode())
        if known is None or len(body) > self._most:
            raise ProtocolError(
                f"a record of {self._mark} of kind {kind!r}, of {len(body)} bytes: not one of ours"
            )
        content = body[line.end() :]
        if crc32(kind + content) != int(checksum, 16):
            raise ProtocolError(f"a damaged record: its checksum is not {checksum.decode()}")
        return known.json.read(load_object(content), "a record")

    def kind(self, body: bytes) -> str:
        """The kind of a record, without reading it; "unknown" if it has none."""
        line = self._line.match(body)
        return ((line and line[2]) or b"unknown").decode()


# --- seals ----------------------------------------------------------------------------------------
# Without the secret, a writer to the topics of records cannot make a record that counts. A seal is
# an HMAC with a secret of the group's members. It is a property of the message: the record itself
# does not change, and a reader without a secret reads it as before. The seal covers group and
# queue, the properties that count and the body, so that no record counts elsewhere. The numbers in
# a record protect against a genuine one that is appended again later. The lines of a park topic do
# not say when they were written, so their seal does: it has the newest position of that moment in
# it.


SEAL = "ORDERLY_SEAL"
_BYTES = 16  # of the HMAC
_DIGITS = 20  # an offset has fewer
# What a broker adds or acts upon is not covered, nor an id that it gives to what has none.
_COVERED = frozenset({names.KEYS, names.SHARDING_KEY, names.TAGS})
_LEFT_OUT = (names.RESERVED - _COVERED) | {SEAL}


class Seal:
    """The secrets of one group. Thread-safe.

    Args:
        group: the consumer group, as the broker names it.
        secrets: `ClientConfig.record_secrets`.

    Attributes:
        group: as given.
        signs: whether what is written gets a seal.
    """

    def __init__(self, group: str, secrets: str = "") -> None:
        self.group = group
        first, *others = secrets.split(";")
        self.signs = first != ""
        self._takes_all = "" in (first, *others)
        self._secrets = tuple(secret.encode() for secret in (first, *others))

    def put_on(
        self,
        queue: MessageQueue,
        properties: Mapping[str, str],
        body: bytes,
        newest: int | None = None,
    ) -> dict[str, str]:
        """Return the properties of a record with its seal; without a secret as they are.

        Args:
            queue: where the record goes.
            properties: of its message.
            body: as it will be read there: not compressed.
            newest: the highest position of the queue by now, where that matters.
        """
        if not self.signs:
            return dict(properties)
        behind = "" if newest is None else str(newest)
        mac = self._mac(self._secrets[0], queue, behind, properties, body)
        return {**properties, SEAL: f"{behind}:{mac}"}

    def accepts(self, queue: MessageQueue, message: ReceivedMessage) -> bool:
        """Whether a record may be believed that was read from a queue."""
        if self._takes_all:
            return True
        behind, _, mac = message.properties.get(SEAL, "").partition(":")
        content = (queue, behind, message.properties, message.raw_body)
        # As bytes: of a text that is no ASCII compare_digest wants to know nothing.
        return any(
            hmac.compare_digest(self._mac(secret, *content).encode(), mac.encode())
            for secret in self._secrets
        )

    def _mac(
        self,
        secret: bytes,
        queue: MessageQueue,
        behind: str,
        properties: Mapping[str, str],
        body: bytes,
    ) -> str:
        texts = [self.group, queue.topic, queue.broker_name, str(queue.queue_id), behind]
        for name in sorted(properties.keys() - _LEFT_OUT):
            texts += [name, properties[name]]
        mac = hmac.new(secret, digestmod="sha256")
        for part in (*(text.encode("utf-8", "surrogatepass") for text in texts), body):
            mac.update(len(part).to_bytes(8) + part)  # so that nothing moves from one to the next
        return mac.digest()[:_BYTES].hex()


def without_content(message: ReceivedMessage) -> ReceivedMessage:
    """Return a message in whose place nothing can be read: what is not believed is damaged."""
    kept = {names.TAGS: message.tags} if message.tags else {}
    return message.changed(properties=kept, body=b"")


def written_behind(message: ReceivedMessage) -> int:
    """Position of the newest message that the writer of a park topic's line knew of.

    Its own, if it has no seal; one that was appended again has the old one.
    """
    behind = message.properties.get(SEAL, "").partition(":")[0]
    position = message.queue_offset
    known = behind.isascii() and behind.isdecimal() and len(behind) < _DIGITS
    return min(int(behind), position) if known else position
