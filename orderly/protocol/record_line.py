"""Records as readable lines: `MARK VERSION KIND CHECKSUM JSON`, in the bodies of messages.

The checksum (CRC-32 in hex) covers kind and JSON. State records and the control records of a park
topic are written so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from orderly.errors import ProtocolError
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import load_object

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
        write: returns its fields.
        read: returns it from its fields; raises ProtocolError.
    """

    name: str
    type: type
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any]], Any]


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
        content = dumps(kind.write(record))
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
        return known.read(load_object(content))

    def kind(self, body: bytes) -> str:
        """The kind of a record, without reading it; "unknown" if it has none."""
        line = self._line.match(body)
        return ((line and line[2]) or b"unknown").decode()
