"""Command headers as JSON: what brokers and name servers answer by default.

Null fields are left out by the peers, so every key but the code may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orderly.errors import ProtocolError
from orderly.protocol.codes import Language
from orderly.protocol.command import RemotingCommand

_quoted = json.encoder.encode_basestring
_from_json = json.JSONDecoder().decode
_LANGUAGES = {member.name: int(member) for member in Language}
_NAMES = {number: name for name, number in _LANGUAGES.items()}


def write_json_header(command: RemotingCommand) -> bytes:
    """Write the header of `command` as JSON, as RemotingSerializable does.

    Raises:
        ProtocolError: a field holds text that cannot be written as UTF-8.
    """
    language = _NAMES.get(command.language, Language.OTHER.name)
    # By hand: a JSONEncoder takes 2.4 times as long, and this is a tenth of a small send.
    text = (
        f'{{"code":{command.code:d},"language":"{language}","version":{command.version:d}'
        f',"opaque":{command.request_id:d},"flag":{command.flag:d}'
        ',"serializeTypeCurrentRPC":"JSON"'
    )
    if command.remark is not None:
        text += f',"remark":{_quoted(command.remark)}'
    if command.ext:
        text += f',"extFields":{{{command.json_ext or render_ext(command.ext)}}}'
    try:
        return f"{text}}}".encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("a header field holds a lone surrogate; send valid text") from error


def render_ext(ext: Mapping[str, str]) -> str:
    """Write header fields as the inside of a JSON object."""
    return ",".join([f"{_quoted(name)}:{_quoted(value)}" for name, value in ext.items()])


def read_json_header(data: bytes) -> RemotingCommand:
    """Read a JSON header into a command without a body.

    Raises:
        ProtocolError: no JSON object, or a field of the wrong type or out of range.
    """
    try:
        header = _from_json(data.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the frame's header is not JSON: {data[:80]!r}") from error
    if not isinstance(header, dict):
        raise ProtocolError(f"the frame's header is not a JSON object: {data[:80]!r}")
    if "code" not in header:
        raise ProtocolError("the frame's header has no code")
    remark = header.get("remark")
    if remark is not None and not isinstance(remark, str):
        raise ProtocolError(f"header field 'remark' is not a string: {remark!r:.80}")
    return RemotingCommand(
        code=_int(header, "code"),
        request_id=_int(header, "opaque"),
        flag=_int(header, "flag"),
        remark=remark,
        ext=_ext_fields(header.get("extFields")),
        language=_LANGUAGES.get(str(header.get("language")), Language.OTHER),
        version=_int(header, "version"),
    )


def _int(header: dict[str, Any], name: str) -> int:
    value = header.get(name, 0)
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise ProtocolError(f"header field {name!r} is not a 32-bit integer: {value!r:.80}")
    return value


def _ext_fields(fields: Any) -> dict[str, str]:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise ProtocolError(f"header field 'extFields' is not an object: {fields!r:.80}")
    if {str}.issuperset(map(type, fields.values())):
        return fields
    kept = {name: value for name, value in fields.items() if value is not None}
    for name, value in kept.items():
        if type(value) is int:
            kept[name] = str(value)  # librocketmq writes numbers so, and Java takes them as text
        elif not isinstance(value, str):
            raise ProtocolError(f"header field {name!r:.80} is not a string: {value!r:.80}")
    return kept
