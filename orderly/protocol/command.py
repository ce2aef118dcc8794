"""The command: one request or reply, whatever serialisation carries it.

Framing is in `frame`, the two header serialisations in `frame_json` and `frame_binary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orderly.protocol.codes import PROTOCOL_VERSION, Language

_RESPONSE = 1
_ONEWAY = 2


@dataclass(slots=True)
class RemotingCommand:
    """One request or reply (RemotingCommand in Java).

    Mutable for one reason: the connection that sends a request gives it its `request_id`.

    Attributes:
        code: a RequestCode or ResponseCode as a plain number; unknown ones are kept.
        request_id: chosen by the requester, repeated by the reply ("opaque" on the wire).
        flag: bit 0 marks a reply, bit 1 a request without a reply.
        remark: the replier's text; says nothing about success or failure.
        ext: header fields by wire name; see `headers`.
        json_ext: `ext` as `frame_json.render_ext` writes it, if the maker has it ready.
        dropped: bytes of the frame it came in, of which the body was thrown away, as too large; 0:
            the body is here.
        language: the peer's language; a name or number unknown here is Language.OTHER.
    """

    code: int
    request_id: int = 0
    flag: int = 0
    remark: str | None = None
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    language: int = Language.PYTHON
    version: int = PROTOCOL_VERSION
    json_ext: str | None = field(default=None, compare=False)
    dropped: int = 0

    @property
    def is_response(self) -> bool:
        """True for a reply. Both sides count request ids, so only this tells them apart."""
        return self.flag & _RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """True for a request that gets no reply, not even an error."""
        return self.flag & _ONEWAY != 0


def request(
    code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", oneway: bool = False
) -> RemotingCommand:
    """Make a request; its `request_id` is left to the connection."""
    flag = _ONEWAY if oneway else 0
    return RemotingCommand(int(code), flag=flag, ext=dict(ext or {}), body=body)


def reply_to(
    request: RemotingCommand,
    code: int = 0,
    *,
    remark: str | None = None,
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Make the reply to `request`: the same `request_id`, marked as a reply."""
    return RemotingCommand(
        int(code), request.request_id, _RESPONSE, remark=remark, ext=dict(ext or {}), body=body
    )
