"""Compressed message bodies: zlib, and with the extra `speed` lz4 and zstd.

Output is bounded: a few bytes can claim to be gigabytes. The flags of a message say how it is
compressed (`stored_message`); what is worth compressing is the producer's decision.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum

from orderly.errors import ProtocolError, UndecodableBody
from orderly.model import ReceivedMessage, UndecodableMessage

_ZLIB_LEVEL = 5  # Java's default
_COMPRESS_ABOVE = 4096  # bytes, as Java's producer
# Of a message's flags (`stored_message.SysFlag`).
_COMPRESSED = 0x1
_BATCH = 0xC0
_HOW_COMPRESSED = _COMPRESSED | 0x700


class Compression(IntEnum):
    """Bits 8 to 10 of a message's flags (MessageSysFlag)."""

    OLD_ZLIB = 0  # written before there was a choice
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compress_zlib(data: bytes) -> bytes:
    """Compress a body as Java does by default; it carries Compression.ZLIB."""
    return zlib.compress(data, _ZLIB_LEVEL)


def sent_body(message: ReceivedMessage) -> tuple[bytes, int]:
    """Return a received message's body as it is sent once more, and its flags.

    How it came is no longer known, so a large one is compressed. One that cannot be read goes as
    it is stored: whoever installs what was missing, or knows its sender, can still read it.
    """
    if isinstance(message, UndecodableMessage):
        return message.raw_body, message.sys_flag & _HOW_COMPRESSED
    body = message.body
    smaller = compress_zlib(body) if len(body) > _COMPRESS_ABOVE else body
    if len(smaller) >= len(body):
        return body, 0
    return smaller, _COMPRESSED | Compression.ZLIB << 8


def is_stored_as(sys_flag: int, original: int) -> bool:
    """Whether these are the flags of what `sent_body` returned for a body that cannot be read.

    Args:
        sys_flag: as it was stored.
        original: of the message that was sent once more.
    """
    return sys_flag & (_HOW_COMPRESSED | _BATCH) == original & _HOW_COMPRESSED


def restored(message: ReceivedMessage, sys_flag: int) -> ReceivedMessage:
    """Return a message that was sent once more by `sent_body`, with the flags it had before.

    A batch that could not be read goes as a plain message: topics of other kinds take no batches.
    """
    stored = message if message.sys_flag == sys_flag else message.changed(sys_flag=sys_flag)
    if isinstance(message, UndecodableMessage) or sys_flag & _BATCH != _BATCH:
        return stored
    return UndecodableMessage(stored, "it is a batch of messages that could not be read")


def decompress(kind: int, data: bytes, limit: int) -> bytes:
    """Decompress a body of at most `limit` bytes. Bytes after its end are ignored, as by Java.

    Raises:
        ProtocolError: an unknown kind, broken or cut data, more than `limit` bytes; or a kind
            that needs the extra `speed`, which is not installed.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise ProtocolError(f"a body is compressed in a way unknown here ({kind})")
    try:
        # One byte more than allowed distinguishes a body at the limit from one beyond it.
        result, complete = reader(data, limit + 1)
    except ImportError as error:
        raise UndecodableBody(
            f"a body is compressed with {Compression(kind).name.lower()}; reading it needs"
            " the extra `rocketmq-orderly[speed]`",
            retriable=True,
        ) from error
    if len(result) > limit:
        raise ProtocolError(f"a compressed body holds more than the {limit} bytes allowed")
    if not complete:
        raise ProtocolError("a compressed body is cut")
    return result


def _read_zlib(data: bytes, limit: int) -> tuple[bytes, bool]:
    inflater = zlib.decompressobj()
    try:
        result = inflater.decompress(data, limit)
    except zlib.error as error:
        raise ProtocolError(f"a body is not a zlib stream: {error}") from error
    return result, inflater.eof


def _read_lz4(data: bytes, limit: int) -> tuple[bytes, bool]:
    from lz4.frame import LZ4FrameDecompressor  # noqa: PLC0415 - optional: extra `speed`

    inflater = LZ4FrameDecompressor()
    try:
        result: bytes = inflater.decompress(data, limit)
    except (RuntimeError, ValueError, EOFError) as error:
        raise ProtocolError(f"a body is not an lz4 frame: {error}") from error
    return result, inflater.eof


def _read_zstd(data: bytes, limit: int) -> tuple[bytes, bool]:
    import zstandard  # noqa: PLC0415 - optional: extra `speed`

    try:
        if zstandard.frame_content_size(data) > limit:  # what the frame claims; -1 is unknown
            raise ProtocolError("a zstd body claims to hold more than the bytes allowed")
        result = zstandard.ZstdDecompressor().decompress(data, max_output_size=limit)
    except zstandard.ZstdError as error:
        raise ProtocolError(
            f"a body is not a zstd frame of at most {limit} bytes: {error}"
        ) from error
    return result, True


_READERS: dict[int, Callable[[bytes, int], tuple[bytes, bool]]] = {
    Compression.OLD_ZLIB: _read_zlib,
    Compression.ZLIB: _read_zlib,
    Compression.LZ4: _read_lz4,
    Compression.ZSTD: _read_zstd,
}
