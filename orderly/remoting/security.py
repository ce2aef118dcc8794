"""What a client's connections are protected by: signatures, encryption, both or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orderly.config import ClientConfig
from orderly.protocol.signing import Credentials

if TYPE_CHECKING:
    from orderly.remoting.tls import Tls


@dataclass(frozen=True, slots=True)
class Security:
    """Shared by all connections of a client.

    Attributes:
        credentials: what requests are signed with; None: they are not.
        tls: what connections are encrypted with; None: they are not.
    """

    credentials: Credentials | None = None
    tls: Tls | None = None


UNPROTECTED = Security()


def security_of(config: ClientConfig) -> Security:
    """Read the files that the settings name.

    Raises:
        ConfigError: one cannot be read, or is not what it should be.
    """
    credentials = tls = None
    if config.access_key:
        credentials = Credentials(config.access_key, config.secret_key, config.security_token)
    if config.tls:
        from orderly.remoting.tls import Tls  # noqa: PLC0415  `ssl` costs time, and most need none

        tls = Tls(config)
    return Security(credentials, tls)
