"""Settings of connections, name servers and heartbeats."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from orderly.config.fields import MIB, FromEnv, check_types, require
from orderly.config.names import parse_addresses

_NAMESPACE = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ClientConfig(FromEnv):
    """Connections, name servers and heartbeats.

    Attributes:
        namesrv: "host:port;host:port"; empty: ORDERLY_NAMESRV.
        namespace: prefix of all topic and group names at the broker ("shop": "shop%orders"), left
            out in the program. Empty: none.
        connect_timeout, request_timeout: seconds (Java: 3 and 3).
        route_interval: seconds between route refreshes.
        heartbeat_interval: seconds between heartbeats; the broker forgets a member after 120.
        max_frame: bytes; a longer frame from a peer is a ProtocolError.
    """

    namesrv: str = ""
    namespace: str = ""
    connect_timeout: float = 3.0
    request_timeout: float = 3.0
    route_interval: float = 30.0
    heartbeat_interval: float = 30.0
    max_frame: int = 16 * MIB

    def __post_init__(self) -> None:
        given = self.namesrv != ""
        namesrv = self.namesrv if given else os.environ.get("ORDERLY_NAMESRV", "")
        object.__setattr__(self, "namesrv", ";".join(parse_addresses(namesrv)))
        check_types(self)
        require(
            not self.namespace or _NAMESPACE.fullmatch(self.namespace) is not None,
            f"namespace {self.namespace!r} may only contain letters, digits and _-",
        )
        for name in ("connect_timeout", "request_timeout", "route_interval", "heartbeat_interval"):
            require(getattr(self, name) > 0, f"{name} must be more than 0 seconds")
        require(self.max_frame >= 64 * 1024, "max_frame must be at least 65536 bytes")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers as ("host:port", …)."""
        return tuple(self.namesrv.split(";"))
