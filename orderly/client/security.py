"""What a client's connections are protected by: signatures, encryption, whom it connects to."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

from orderly.config import ClientConfig
from orderly.config.client import Hosts, parse_hosts
from orderly.errors import ConnectFailed
from orderly.protocol.signing import Credentials

if TYPE_CHECKING:
    from orderly.client.tls import Tls


@dataclass(frozen=True, slots=True)
class Security:
    """Shared by all connections of a client.

    Attributes:
        credentials: what requests are signed with; None: they are not.
        tls: what connections are encrypted with; None: they are not.
        name_servers: addresses that the user named. All others are a name server's word.
        sign_name_servers: requests to them are signed, too.
        broker_hosts: where brokers may be; None: anywhere.
    """

    credentials: Credentials | None = None
    tls: Tls | None = None
    name_servers: frozenset[str] = frozenset()
    sign_name_servers: bool = False
    broker_hosts: Hosts | None = None

    def credentials_for(self, address: str) -> Credentials | None:
        """What requests to `address` are signed with."""
        signs = self.sign_name_servers or address not in self.name_servers
        return self.credentials if signs else None

    def exposes_keys_to(self, address: str) -> bool:
        """Whether signed requests go to `address` as plain text, and not on this machine only."""
        if self.tls is not None or self.credentials_for(address) is None:
            return False
        return not _LOOPBACK.allow(address)

    def check(self, address: str) -> None:
        """Refuse a broker that is where none may be.

        Raises:
            ConnectFailed: names the setting.
        """
        if self.broker_hosts is None or address in self.name_servers:
            return
        if not self.broker_hosts.allow(address):
            raise ConnectFailed(
                f"{address!r:.80} is not one of the hosts in broker_hosts (ORDERLY_BROKER_HOSTS),"
                " so no connection is made. A name server listed a broker there. If that is right,"
                " add its host to the setting; if not, find out who answers as name server",
                address,
            )


_LOOPBACK = Hosts(frozenset({"localhost"}), (), (IPv4Network("127.0.0.0/8"), IPv6Network("::1")))


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
        from orderly.client.tls import Tls  # noqa: PLC0415  `ssl` costs time, and most need none

        tls = Tls(config)
    return Security(
        credentials,
        tls,
        frozenset(config.addresses),
        config.sign_name_server_requests,
        parse_hosts(config.broker_hosts),
    )
