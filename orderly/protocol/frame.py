"""Frames of the remoting protocol: commands to bytes, and a stream of bytes to commands.

A frame is `u32 total | u8 serialiser, u24 header size | header | body`. The reply's serialiser
is the server's own choice, so it is read from each frame. Matching replies to requests and
numbering requests is the connection's business.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from orderly.errors import ProtocolError
from orderly.protocol.command import RemotingCommand, reply_to, request
from orderly.protocol.frame_binary import read_binary_header, write_binary_header
from orderly.protocol.frame_json import read_json_header, write_json_header

__all__ = [
    "MAX_DROPPED",
    "MAX_FRAME",
    "MAX_HEADER",
    "FrameDecoder",
    "RemotingCommand",
    "Serializer",
    "encode_frame",
    "reply_to",
    "request",
]

MAX_FRAME = 16 * 1024 * 1024  # bytes; the servers' own limit, above it they close the socket
MAX_HEADER = 1024 * 1024  # bytes; properties (32 KiB, escaped) and remarks fit many times
# Bytes of a frame that is thrown away; above it the stream is given up. Text (HTTP) and TLS records
# that are taken for a frame announce more.
MAX_DROPPED = 256 * 1024 * 1024

_PREFIX = Struct(">II")
_TOTAL = Struct(">I")
_HEADER_SIZE_MASK = 0xFFFFFF


class Serializer(IntEnum):
    """How a frame's header is written."""

    JSON = 0
    ROCKETMQ = 1


_WRITERS = {Serializer.JSON: write_json_header, Serializer.ROCKETMQ: write_binary_header}
_READERS = {Serializer.JSON: read_json_header, Serializer.ROCKETMQ: read_binary_header}


def encode_frame(command: RemotingCommand, serializer: Serializer = Serializer.JSON) -> bytes:
    """Write `command` as one frame.

    Raises:
        ProtocolError: the header cannot be written, or header or frame exceed what servers take.
    """
    header = _WRITERS[serializer](command)
    total = 4 + len(header) + len(command.body)
    if len(header) > MAX_HEADER or total > MAX_FRAME:
        raise ProtocolError(
            f"command {command.code} makes a frame of {total} bytes with a header of"
            f" {len(header)}; at most {MAX_FRAME} and {MAX_HEADER} can be sent"
        )
    prefix = _PREFIX.pack(total, serializer << 24 | len(header))
    return b"".join((prefix, header, command.body))


class FrameDecoder:
    """Turns a stream of bytes, however it is cut, into commands.

    Holds at most one unfinished frame. Not thread-safe: one reader feeds it.

    Args:
        max_frame: bytes; of a frame that announces more only the header is kept. Its command comes
            at once, with `dropped` set, and the body is thrown away as it arrives. One of more than
            MAX_DROPPED is refused.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        self._to_drop = 0  # bytes still to come of a frame that is too large
        self._failure: ProtocolError | None = None

    @property
    def dropping(self) -> bool:
        """Whether a frame that is too large is still arriving."""
        return self._to_drop > 0

    def receive(self, data: bytes | bytearray | memoryview) -> list[RemotingCommand]:
        """Add `data` and return the commands it completes, oldest first.

        Raises:
            ProtocolError: the stream is broken; commands completed by the same call are lost
                with it. Where the next frame starts is unknown from then on, so each later call
                raises too: close the connection.
        """
        if self._failure is not None:
            raise ProtocolError("the stream broke before; close it") from self._failure
        self._buffer += data
        try:
            return self._take_all()
        except ProtocolError as error:
            self._failure = error
            self._buffer = bytearray()
            raise

    def whole(self, data: bytes) -> RemotingCommand | None:
        """The command that `data` is, if it is one whole frame and nothing unfinished came before.

        Changes nothing: whatever `data` is, it can still be given to `receive`.
        """
        total = len(data) - _TOTAL.size
        if (
            self._buffer
            or self._to_drop
            or not 4 <= total <= self._max_frame
            or _TOTAL.unpack_from(data)[0] != total
        ):
            return None
        try:
            return _read_frame(data[_TOTAL.size :])
        except ProtocolError:  # `receive` says it
            return None

    def _take_all(self) -> list[RemotingCommand]:
        buffer = self._buffer
        at = self._drop(0)
        commands = []
        while len(buffer) - at >= _TOTAL.size:
            (total,) = _TOTAL.unpack_from(buffer, at)
            if not 4 <= total <= max(self._max_frame, MAX_DROPPED):
                raise ProtocolError(
                    f"a frame of {total} bytes was announced; 4 to {self._max_frame} are"
                    " possible: is the peer a RocketMQ server?"
                )
            is_large = total > self._max_frame
            end = _end_of_header(buffer, at, total) if is_large else at + _TOTAL.size + total
            if end > len(buffer):
                break
            command = _read_frame(bytes(buffer[at + _TOTAL.size : end]))
            commands.append(command)
            if is_large:
                command.dropped = total
                self._to_drop = at + _TOTAL.size + total - end
                end = self._drop(end)
            at = end
        del buffer[:at]
        return commands

    def _drop(self, at: int) -> int:
        """Pass over what is to be dropped from `at` on; returns where that ends in the buffer."""
        size = min(self._to_drop, len(self._buffer) - at)
        self._to_drop -= size
        return at + size


def _end_of_header(buffer: bytearray, at: int, total: int) -> int:
    """Where the header ends of a frame that begins at `at`; beyond the buffer: unknown yet."""
    begin = at + _PREFIX.size
    if begin > len(buffer):
        return begin
    mark: int = _PREFIX.unpack_from(buffer, at)[1]
    size = mark & _HEADER_SIZE_MASK
    if size > MAX_HEADER or size > total - _TOTAL.size or mark >> 24 not in _READERS:
        raise ProtocolError(f"a header of {size} bytes was announced in a frame of {total}")
    return begin + size


def _read_frame(frame: bytes) -> RemotingCommand:
    (mark,) = _TOTAL.unpack_from(frame)
    kind, size = mark >> 24, mark & _HEADER_SIZE_MASK
    body_at = _TOTAL.size + size
    if size > MAX_HEADER or body_at > len(frame):
        raise ProtocolError(f"a header of {size} bytes was announced in a frame of {len(frame)}")
    read = _READERS.get(kind)
    if read is None:
        raise ProtocolError(f"serialiser {kind} is unknown; JSON (0) and ROCKETMQ (1) can be read")
    command = read(frame[_TOTAL.size : body_at])
    command.body = frame[body_at:]
    return command
