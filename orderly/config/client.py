"""Settings of connections, name servers and heartbeats, and the hosts that a client may reach."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, Self, SupportsIndex

from orderly.config.arguments import (
    check_kind,
    check_named_texts,
    check_text,
    is_host,
    parse_addresses,
)
from orderly.config.fields import (
    MIB,
    NOT_SHOWN,
    FromEnv,
    Secret,
    check_types,
    given,
    require,
    variables_of_fields,
)
from orderly.config.variables import warn_of_unknown
from orderly.errors import ConfigError

_PLAIN_NAME = re.compile(r"[a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that a `broker_hosts` list allows.

    Attributes:
        names: whole names, in lower case.
        domains: ".example.com": every name below it.
        networks: of addresses; a single address is a network, too.
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
                    f"{part!r:.80} in broker_hosts is not a host: write names (broker-1), domains"
                    " (*.mq.example.com), addresses, and networks (10.0.0.0/8, without bits beyond"
                    " its length)"
                ) from None
            if part.startswith("*."):
                domains.append(f".{name}")
            else:
                names.add(name)
    return Hosts(frozenset(names), tuple(domains), tuple(networks)) if parts else None


# --- the settings ---------------------------------------------------------------------------------


_SECRETS = ("access_key", "secret_key", "security_token", "record_secrets")
_SHORTEST = 16  # characters of a secret
_NAMESPACE = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ClientConfig(FromEnv):
    """Connections, name servers and heartbeats.

    Attributes:
        namesrv: "host:port;host:port"; empty: ORDERLY_NAMESRV.
        namespace: prefix of all topic and group names at the broker ("shop": "shop%orders"); your
            program leaves it out. Empty: none.
        connect_timeout, request_timeout: seconds (Java: 3 and 3).
        route_interval: seconds between route refreshes.
        heartbeat_interval: seconds between heartbeats; the broker forgets a member after 120.
        max_frame: bytes. A longer frame from a peer is dropped, and fails only its own request
            (ReplyTooLarge). A message that needs more holds its queue.
        access_key, secret_key: user and password for brokers with access control (ACL 1.0 and 2.0).
            With them every request is signed; empty: none is. The repr and `dataclasses.asdict`
            never show the keys or the token. A config that has keys cannot be pickled, so read them
            where you need them.
        security_token: sent with signed requests, for temporary credentials (STS).
        tls: encrypt all connections to name servers and brokers.
        tls_ca_file: the certificates of trusted authorities, PEM. Empty: the system's.
        tls_cert_file, tls_key_file: this client's own certificate and its key, PEM, for servers
            that ask for one. The key may be in the first file.
        tls_verify: "host": the server's certificate must be signed by a trusted authority, and be
            for the host that was connected to (brokers announce IP addresses unless their brokerIP1
            is a name). "chain": a signature by an authority of `tls_ca_file` is enough. "none" is
            insecure, and logs a warning: anybody on the way can read and change messages.
        broker_hosts: "10.0.0.0/8;*.mq.example.com": the hosts on which brokers can be, as names,
            domains with a star, addresses and networks. Name servers say where brokers are; the
            client connects to no other host. Names are compared, not looked up. Empty: any host.
        sign_name_server_requests: also sign requests to name servers. Name servers check no
            signature; a proxy in their place does.
        record_secrets: "new;old". The members of a group that keeps order by key seal their records
            in state and park topics with it. The first secret seals new records; only records that
            one of the secrets sealed are accepted. An empty secret means "no seal": "new;" accepts
            all records, for a group that gets its first secret. Empty: records are neither sealed
            nor checked, so anybody who can write to those topics can forge records. Secrets are in
            no repr and no pickle.
        redact_keys: "hash": events, and reports of consumers to brokers, have hashes instead of
            keys and no text of failures, since both can be personal data. Commands with
            --redact-keys take their default from here. Empty: keys are shown.
    """

    namesrv: str = ""
    namespace: str = ""
    connect_timeout: float = 3.0
    request_timeout: float = 3.0
    route_interval: float = 30.0
    heartbeat_interval: float = 30.0
    max_frame: int = 16 * MIB
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: bool = False
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_verify: Literal["host", "chain", "none"] = "host"
    broker_hosts: str = ""
    sign_name_server_requests: bool = False
    record_secrets: str = field(default="", repr=False)
    redact_keys: Literal["", "hash"] = ""

    def __post_init__(self) -> None:
        namesrv = self.namesrv if self.namesrv != "" else os.environ.get("ORDERLY_NAMESRV", "")
        object.__setattr__(self, "namesrv", ";".join(parse_addresses(namesrv)))
        check_types(self)
        for name in _SECRETS:
            value = Secret(getattr(self, name))
            require(
                value != NOT_SHOWN, f"{name} is {NOT_SHOWN}, which hides a secret: pass the secret"
            )
            object.__setattr__(self, name, value or "")
        require(
            not self.namespace or _NAMESPACE.fullmatch(self.namespace) is not None,
            f"namespace {self.namespace!r} may only contain letters, digits and _-",
        )
        for name in ("connect_timeout", "request_timeout", "route_interval", "heartbeat_interval"):
            require(getattr(self, name) > 0, f"{name} must be more than 0 seconds")
        require(self.max_frame >= 64 * 1024, "max_frame must be at least 65536 bytes")
        self._check_security()

    def _check_security(self) -> None:
        require(
            bool(self.access_key) == bool(self.secret_key),
            "access_key and secret_key go together: set both (ORDERLY_ACCESS_KEY and"
            " ORDERLY_SECRET_KEY, or in the settings file), or none",
        )
        require(
            not self.security_token or self.access_key != "",
            "security_token goes along with access_key and secret_key: set them too",
        )
        for name in ("tls_ca_file", "tls_cert_file", "tls_key_file"):
            require(self.tls or not getattr(self, name), f"{name} needs tls=True (ORDERLY_TLS)")
        require(
            not self.tls or self.tls_verify != "chain" or self.tls_ca_file != "",
            "tls_verify='chain' needs tls_ca_file (ORDERLY_TLS_CA_FILE), the authority of your"
            " brokers: without it, anybody's certificate from a public authority would be accepted",
        )
        parse_hosts(self.broker_hosts)
        require(
            all(not each or len(each) >= _SHORTEST for each in self.record_secrets.split(";")),
            f"each of record_secrets must have at least {_SHORTEST} characters (`openssl rand -hex"
            " 32` makes one); put a semicolon between two",
        )
        require(
            not self.tls_key_file or self.tls_cert_file != "",
            "tls_key_file needs tls_cert_file, the certificate it is the key of",
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Refuse to copy secrets to places where nobody expects them: a plan, a file, a log."""
        require(
            not self.access_key and not self.record_secrets,
            "a ClientConfig with keys or secrets cannot be pickled or copied, because the copy"
            " would contain them; make it where it is used (ClientConfig.from_settings, or"
            " from_env)",
        )
        return object.__reduce_ex__(self, protocol)

    @classmethod
    def from_settings(
        cls,
        path: str | os.PathLike[str] | None = None,
        context: str = "",
        env: Mapping[str, str] | None = None,
        **explicit: Any,
    ) -> Self:
        """Read the settings as the command line does. The first place that has a setting wins.

        The order: `explicit` fields; the context named here; the environment; the context of
        ORDERLY_CONTEXT or the file's own; the file outside of its contexts; NAMESRV_ADDR for the
        name server.

        Args:
            path: a settings file (see `orderly.config.settings_file`); None: no file.
            context: one of the file's.
            env: variables; default: os.environ.
            explicit: fields of this class, with their values.

        Raises:
            ConfigError: no such file or context, a bad setting, or no name server.
        """
        from orderly.config import layers, settings_file  # noqa: PLC0415  they read our fields

        check_kind("path", path, (str, os.PathLike, type(None)), "a path or None")
        check_text("context", context)
        check_named_texts("env", env)
        env = os.environ if env is None else env
        warn_of_unknown(env, variables_of_fields(), only_near=True)
        file = settings_file.read_settings(Path(path)) if path else settings_file.NO_FILE
        texts, values = layers.config_fields(layers.find_settings(file, explicit, context, env))
        return cls.from_env(texts, **values)

    @property
    def redacts(self) -> bool:
        """Whether keys are hidden."""
        return self.redact_keys != ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers as ("host:port", …)."""
        return tuple(self.namesrv.split(";"))


def at_name_server(config: ClientConfig | None, namesrv: str) -> ClientConfig:
    """Combine `config` and `namesrv`: a `namesrv` that is not empty wins over the config's.

    Raises:
        ConfigError: no name server is set, or a bad one; `config` is not a ClientConfig.
    """
    check_text("namesrv", namesrv)
    found = given(ClientConfig, config, namesrv=namesrv)
    return replace(found, namesrv=namesrv) if namesrv else found
