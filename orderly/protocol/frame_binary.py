"""Command headers in RocketMQ's binary form (RocketMQSerializable in Java).

A server started with rocketmq.serialize.type=ROCKETMQ answers in it whatever it was asked in.
"""

from __future__ import annotations

import struct
from struct import Struct

from orderly.errors import ProtocolError
from orderly.protocol.command import RemotingCommand

_FIXED = Struct(">hBhiii")  # code, language, version, opaque, flag, length of the remark
_SHORT = Struct(">h")
_INT = Struct(">i")


def write_binary_header(command: RemotingCommand) -> bytes:
    """Write the header of `command`; an empty remark is written as none.

    Raises:
        ProtocolError: a code over 32767 (only JSON carries it), a name over 32767 bytes, or text
            that cannot be written as UTF-8.
    """
    try:
        remark = (command.remark or "").encode()
        fields = b"".join(
            _SHORT.pack(len(key)) + key + _INT.pack(len(value)) + value
            for key, value in ((k.encode(), v.encode()) for k, v in command.ext.items())
        )
        fixed = _FIXED.pack(
            command.code,
            command.language,
            command.version,
            command.request_id,
            command.flag,
            len(remark),
        )
    except (struct.error, UnicodeEncodeError) as error:
        raise ProtocolError(
            f"command {command.code} does not fit a binary header ({error}); send it as JSON"
        ) from error
    return b"".join((fixed, remark, _INT.pack(len(fields)), fields))


def read_binary_header(data: bytes) -> RemotingCommand:
    """Read a binary header into a command without a body.

    Raises:
        ProtocolError: a length that does not fit the header, a field name of no bytes, text
            that is not UTF-8, or bytes left over.
    """
    try:
        return _read(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"the frame's binary header is broken: {error}") from error


def _read(data: bytes) -> RemotingCommand:
    code, language, version, request_id, flag, remark_size = _FIXED.unpack_from(data)
    remark, at = _text(data, _FIXED.size, remark_size)
    (fields_size,) = _INT.unpack_from(data, at)
    at += _INT.size
    if fields_size != len(data) - at:
        raise ProtocolError(
            f"the header announces {fields_size} bytes of fields and holds {len(data) - at}"
        )
    return RemotingCommand(
        code, request_id, flag, remark or None, _ext_fields(data, at), b"", language, version
    )


def _ext_fields(data: bytes, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    while at < len(data):
        (size,) = _SHORT.unpack_from(data, at)
        name, at = _text(data, at + _SHORT.size, size)
        if not name:
            raise ProtocolError("the header holds a field without a name")
        (size,) = _INT.unpack_from(data, at)
        fields[name], at = _text(data, at + _INT.size, size)
    return fields


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    end = at + size
    if size < 0 or end > len(data):
        raise ProtocolError(f"the header announces {size} bytes of text; {len(data) - at} are left")
    return data[at:end].decode(), end
