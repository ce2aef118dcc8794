"""Hosts that are allowed: names, domains, addresses and networks, as a setting lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from orderly.config.names import is_host
from orderly.errors import ConfigError

_PLAIN_NAME = re.compile(r"[a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Hosts:
    """What a list allows.

    Attributes:
        names: whole names, in small letters.
        domains: ".example.com": every name below it.
        networks: of addresses; a single one is a network, too.
    """

    names: frozenset[str]
    domains: tuple[str, ...]
    networks: tuple[IPv4Network | IPv6Network, ...]

    def allow(self, address: str) -> bool:
        """Whether the host of "host:port" is on the list. No name is looked up."""
        host = address.rpartition(":")[0].strip("[]").lower().removesuffix(".")
        try:
            number = ip_address(host)
        except ValueError:
            below = _PLAIN_NAME.fullmatch(host) is not None and host.endswith(self.domains)
            return host in self.names or below
        return any(number in network for network in self.networks)


def parse_hosts(text: str) -> Hosts | None:
    """Read "10.0.0.0/8;*.mq.example.com;broker-1" (or commas); None if it is empty.

    Raises:
        ConfigError: something else.
    """
    parts = [part.strip().lower() for part in re.split(r"[;,]", text) if part.strip()]
    names, domains, networks = set(), [], []
    for part in parts:
        name = part.removeprefix("*.").removesuffix(".")
        try:
            networks.append(ip_network(part.strip("[]")))
        except ValueError:
            if not is_host(name):
                raise ConfigError(
                    f"{part!r:.80} in broker_hosts is no host: write names (broker-1), domains"
                    " (*.mq.example.com), addresses, and networks (10.0.0.0/8, without bits beyond"
                    " its length)"
                ) from None
            if part.startswith("*."):
                domains.append(f".{name}")
            else:
                names.add(name)
    return Hosts(frozenset(names), tuple(domains), tuple(networks)) if parts else None
