"""One request at a server, what a server sends, and how a request is refused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from orderly.errors import OrderlyError
from orderly.protocol.ext import from_ext
from orderly.protocol.frame import RemotingCommand, reply_to

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A command and the connection it goes out on."""

    connection_id: int
    command: RemotingCommand


@dataclass(frozen=True, slots=True)
class Call:
    """A request as a server got it.

    Attributes:
        connection_id: it came on.
        peer: the other end's "host:port".
        command: the request.
        now: seconds since the epoch.
    """

    connection_id: int
    peer: str
    command: RemotingCommand
    now: float

    def read(self, header: type[H]) -> H:
        """Read its header; ProtocolError if a required field is missing or wrong."""
        return from_ext(header, self.command.ext)

    def reply(
        self,
        code: int = 0,
        remark: str | None = None,
        *,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Make the answer."""
        return reply_to(self.command, code, remark=remark, ext=ext, body=body)


class RequestRefused(OrderlyError):
    """A request is answered with this code and remark."""

    def __init__(self, code: int, remark: str, ext: Mapping[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext = ext or {}
