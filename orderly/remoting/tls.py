"""TLS settings to what `ssl` needs, and a new connection to an encrypted one."""

from __future__ import annotations

import functools
import os
import socket
import ssl
import stat
from pathlib import Path

from orderly.config import ClientConfig
from orderly.errors import ConfigError, ConnectFailed
from orderly.log import get_logger
from orderly.remoting.tls_advice import handshake_advice
from orderly.remoting.tls_stream import TlsStream

_log = get_logger("orderly.remoting")


class Tls:
    """What all connections of a client encrypt with. Thread-safe.

    TLS 1.2 is the oldest version used. Without `tls_ca_file` the system's authorities are trusted.

    Args:
        config: the settings; its `tls` is on.

    Raises:
        ConfigError: a file that cannot be read, or is not what it should be; a key that others
            can read.
    """

    def __init__(self, config: ClientConfig) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # `TlsStream` need not write in order to read
        context.check_hostname = config.tls_verify == "host"
        if config.tls_verify == "none":
            context.verify_mode = ssl.CERT_NONE
            _warn_of_no_verification()
        elif config.tls_ca_file:
            _load_authorities(context, config.tls_ca_file)
        else:
            context.load_default_certs()
        if config.tls_cert_file:
            _load_own(context, config.tls_cert_file, config.tls_key_file)
        self._context = context

    def open(self, sock: socket.socket, address: str, timeout: float) -> TlsStream:
        """Shake hands on a new connection.

        Args:
            sock: connected; closed if this fails.
            address: "host:port".
            timeout: seconds.

        Raises:
            ConnectFailed: names the address and what to do.
        """
        try:
            stream = TlsStream(sock, self._context, address.rpartition(":")[0].strip("[]"))
            stream.handshake(timeout)
        except OSError as error:
            sock.close()
            text = f"no TLS connection to {address}: {handshake_advice(error, timeout)}"
            raise ConnectFailed(text, address) from error
        except BaseException:
            sock.close()
            raise
        return stream


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except OSError as error:  # an SSLError, too
        raise ConfigError(
            f"tls_ca_file={path!r} cannot be read as certificates in PEM: {error}"
        ) from error


def _load_own(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key or None, password=_no_password)
    except OSError as error:
        files = f"tls_cert_file={certificate!r}" + (f", tls_key_file={key!r}" if key else "")
        raise ConfigError(
            f"{files} cannot be read as a certificate and its key in PEM: {error}"
        ) from error
    _require_private(key or certificate)


def _require_private(path: str) -> None:
    """Refuse the file of a key that others can read or write."""
    status = Path(path).stat()
    if os.name == "posix" and _is_open_to_others(status):
        raise ConfigError(
            f"the client's TLS key in {path!r} is open to others on this machine (mode"
            f" {stat.S_IMODE(status.st_mode):04o}): make it readable by its owner only (chmod 600);"
            " if root owns it, its group may read it (chmod 640)"
        )


def _is_open_to_others(status: os.stat_result) -> bool:
    """By libpq's rule: a key that root lends to a service may be read by its group."""
    by_group = stat.S_IWGRP | stat.S_IXGRP if status.st_uid == 0 else stat.S_IRWXG
    return bool(status.st_mode & (by_group | stat.S_IRWXO))


def _no_password() -> str:
    """Called for a key that is encrypted; without this, OpenSSL would ask on the terminal."""
    raise ConfigError("the client's TLS key is encrypted: decrypt it (openssl pkey -in … -out …)")


@functools.cache
def _warn_of_no_verification() -> None:
    """Once in a process; an application may make many clients."""
    _log.warning(
        "tls.not_verified",
        hint="tls_verify='none' is insecure: anybody on the way can pose as the broker, read and"
        " change messages; set tls_ca_file and tls_verify='host' or 'chain'",
    )
