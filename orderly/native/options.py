"""The settings of a client, as far as librocketmq can have them."""

from __future__ import annotations

import os
import secrets

from orderly.config import ClientConfig
from orderly.config.client import at_name_server
from orderly.errors import UnsupportedByDriver
from orderly.native.library import Library

_CHANNEL = b"ALIYUN"  # what the library's own examples pass; brokers do not read it


def check_driver(config: ClientConfig | None, namesrv: str) -> ClientConfig:
    """Return the settings.

    Raises:
        ConfigError: no config; no name server is set, or a bad one.
        UnsupportedByDriver: TLS, as librocketmq does not verify as `tls_verify` says; broker_hosts,
            as it connects to whatever it is told.
    """
    settings = at_name_server(config, namesrv)
    if settings.tls or settings.security_token:
        raise UnsupportedByDriver(
            "tls and security_token are not for the native driver: librocketmq cannot check a"
            " server's certificate as tls_verify says; use OrderlyProducer and OrderlyConsumer"
        )
    if settings.broker_hosts:
        raise UnsupportedByDriver(
            "broker_hosts is not for the native driver: librocketmq connects to every address that"
            " a name server tells; use OrderlyProducer and OrderlyConsumer"
        )
    return settings


def instance_name() -> bytes:
    """A new name for each producer and consumer.

    librocketmq's client id is address, pid and this: two containers with the same address and pid
    would hold each other's locks.
    """
    return f"orderly-{os.getpid()}-{secrets.token_hex(4)}".encode()


def connect(
    library: Library, kind: str, handle: int, settings: ClientConfig, instance: bytes
) -> None:
    """Tell a producer or consumer its name servers, its own name and its keys.

    Args:
        library: whose it is.
        kind: "Producer" or "PushConsumer", as in the names of the calls.
        handle: of the producer or consumer.
        settings: of the client.
        instance: see `instance_name`.

    Raises:
        NativeCallFailed: it did not take one of them.
    """
    library.do(f"Set{kind}NameServerAddress", handle, settings.namesrv.encode())
    library.do(f"Set{kind}InstanceName", handle, instance)
    if settings.access_key:
        keys = settings.access_key.encode(), settings.secret_key.encode()
        library.do(f"Set{kind}SessionCredentials", handle, *keys, _CHANNEL)
