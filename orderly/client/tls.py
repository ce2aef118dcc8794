"""TLS: the settings as `ssl` needs them, an encrypted connection, and advice when it fails."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import ssl
import stat
import threading
import time
from pathlib import Path

from orderly.config import ClientConfig
from orderly.errors import ConfigError, ConnectFailed
from orderly.interruptions import let_go
from orderly.log import get_logger

_AUTHORITY = (
    "no authority that this client trusts signed its certificate; set tls_ca_file"
    " (ORDERLY_TLS_CA_FILE) to the certificate of the authority that did, in PEM"
)
_NAME = (
    "its certificate is for another host; get one for this host, connect by the name in it"
    " (brokers announce their brokerIP1), or check no names: set tls_verify='chain' and"
    " tls_ca_file"
)
_REFUSED = (
    "it refuses this client's certificate; set tls_cert_file and tls_key_file to a certificate"
    " that has not expired, signed by an authority that the server trusts"
)
_NO_TLS = (
    "it broke off the handshake; check that it speaks TLS 1.2 or newer (tls.server.mode). If the"
    " server has no TLS, set tls=False"
)
_VERIFIED: dict[int, str] = {  # OpenSSL's verify codes, X509_V_ERR_…
    9: "its certificate is not valid yet; check the clocks of both machines",
    10: "its certificate has expired; it needs a new one (or the clock of this machine is wrong)",
    18: _AUTHORITY,  # DEPTH_ZERO_SELF_SIGNED_CERT
    19: _AUTHORITY,  # SELF_SIGNED_CERT_IN_CHAIN
    20: _AUTHORITY,  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: _AUTHORITY,  # UNABLE_TO_VERIFY_LEAF_SIGNATURE
    62: _NAME,  # HOSTNAME_MISMATCH
    64: _NAME,  # IP_ADDRESS_MISMATCH
}
_OUR_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA")  # in the names of a peer's alerts about ours


def handshake_advice(error: OSError, timeout: float) -> str:
    """Say what a failed handshake means.

    Args:
        error: what it raised.
        timeout: seconds it was given.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _VERIFIED.get(error.verify_code, "its certificate is not accepted")
        return f"{known} ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return f"the handshake took more than {timeout:g} s; {_NO_TLS}"
    if isinstance(error, ssl.SSLError):
        return alert_advice(error)
    return f"{_NO_TLS} ({error})"


def alert_advice(error: ssl.SSLError) -> str:
    """Say what the end of an encrypted stream means.

    With TLS 1.3 a peer refuses this client's certificate after the client took the handshake for
    done.
    """
    reason = error.reason or str(error)
    if "ALERT" in reason and any(word in reason for word in _OUR_CERTIFICATE):
        return f"{_REFUSED} ({reason})"
    if "ALERT" in reason or error.reason in ("WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL"):
        return f"{_NO_TLS} ({reason})"
    return f"the stream is not what TLS allows ({reason})"


# --- the encrypted stream of one connection, for one thread that reads and any that write ---------
# An SSL object of OpenSSL must not be used by two threads at once, and one that reads from a
# socket itself is in use while it waits. So it works on memory here, under a lock that is held
# only while it computes; the bytes go over the socket outside of it, as those of a plain
# connection do.


_READ_SIZE = 64 * 1024
_RECORD = 16 * 1024  # bytes; TLS has no longer ones


class TlsStream:
    """What a connection sends and receives, sealed. Thread-safe; see the methods.

    Args:
        sock: connected, nothing was sent on it yet.
        context: what is trusted and offered.
        host: whom the certificate must name, if the context asks that.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._socket = sock
        self._lock = threading.RLock()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._ended = False

    def handshake(self, timeout: float) -> None:
        """Agree on keys; before anything else. Leaves the socket blocking.

        Args:
            timeout: seconds for all of it.

        Raises:
            OSError: it failed: ssl.SSLError if one of the two refuses the other, TimeoutError.
        """
        deadline = time.monotonic() + timeout
        while not self._agreed(deadline):
            self._socket.settimeout(_left(deadline))
            data = self._socket.recv(_READ_SIZE)
            if not data:
                raise ConnectionResetError("closed by the peer")
            self._incoming.write(data)
        self._socket.settimeout(None)

    def seal(self, frame: bytes) -> bytes:
        """Return what to send for `frame`; it must go out, in the order of the calls.

        What the protocol itself wants to say (new keys) comes along: it may wait until then. After
        an interruption nobody knows what was sealed: the stream must end.
        """
        rest = memoryview(frame)
        try:
            with self._lock:
                while rest:
                    rest = rest[self._ssl.write(rest) :]
                return self._outgoing.read()
        except BaseException:
            let_go(self._lock)
            raise

    def recv(self, size: int = _READ_SIZE) -> bytes:
        """Wait for bytes of the peer, as a socket's recv does; b"" is the end. For one thread.

        Raises:
            OSError: the stream broke; ConnectionAbortedError if TLS ended it.
        """
        plain = self._open(b"")  # the last bytes of the handshake may bring the first of these
        while not plain and not self._ended:
            data = self._socket.recv(size)
            if not data:
                break
            plain = self._open(data)
        return plain

    def _open(self, data: bytes) -> bytes:
        """Decrypt what has come."""
        chunks = []
        try:
            with self._lock, contextlib.suppress(ssl.SSLWantReadError):
                self._incoming.write(data)
                while chunk := self._ssl.read(_RECORD):
                    chunks.append(chunk)
                self._ended = True  # the peer said that this is all
        except ssl.SSLError as error:
            raise ConnectionAbortedError(alert_advice(error)) from error
        return b"".join(chunks)

    def _agreed(self, deadline: float) -> bool:
        """Take the next step of the handshake; False if the peer has to say something."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush(deadline)
            return False
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # the peer learns why, if it is still there
                self._flush(deadline)
            raise
        self._flush(deadline)
        return True

    def _flush(self, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(self._outgoing.read())


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


# --- the settings ---------------------------------------------------------------------------------


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
        hint="tls_verify='none' is insecure: anybody on the way can act as the broker, and read and"
        " change messages; set tls_ca_file and tls_verify='host' or 'chain'",
    )
