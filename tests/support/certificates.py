"""Certificates for tests, made by the `openssl` program when they are needed."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from orderly.config import ClientConfig
from tests.support.optional import require

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_USE = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13's default wants it
HERE = ("IP:127.0.0.1", "DNS:localhost")


class Authority:
    """Signs certificates; `ca` is its own, the file to trust.

    Without `openssl` on PATH the test is skipped, or fails if CI=true.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self.ca = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        own = ("-keyout", self._key, "-out", self.ca, *_subject(name))
        self._run("req", "-x509", *_KEY, *own, *_USE)

    def issue(self, name: str, *, hosts: tuple[str, ...] = HERE, days: int = 2) -> tuple[str, str]:
        """Return the files of a certificate for `hosts` and of its key; of days < 0 it expired."""
        files = {end: self._folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext")}
        files["ext"].write_text(f"subjectAltName={','.join(hosts)}\n")
        self._run("req", *_KEY, "-keyout", files["key"], "-out", files["csr"], *_subject(name))
        signing = ("-CA", self.ca, "-CAkey", self._key, "-CAcreateserial")
        lasting = ("-days", days) if days >= 0 else _over()
        self._run(
            *("x509", "-req", "-in", files["csr"], *signing, *lasting),
            *("-extfile", files["ext"], "-out", files["pem"]),
        )
        return str(files["pem"]), str(files["key"])

    def _run(self, *args: object) -> None:
        subprocess.run([*require("openssl"), *map(str, args)], check=True, capture_output=True)


def server_context(certificate: tuple[str, str], clients: Path | None = None) -> ssl.SSLContext:
    """Return what a server encrypts with; `clients`: the authority of those it lets in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(authority: Authority, **settings: object) -> ClientConfig:
    """Return settings of a client that trusts `authority`."""
    files = {"tls": True, "tls_ca_file": str(authority.ca)}
    return ClientConfig(namesrv="127.0.0.1:1", **(files | settings))


def _subject(name: str) -> tuple[str, str]:
    return "-subj", f"/CN={name}"


def _over() -> tuple[str, ...]:
    """Of a certificate that has expired: OpenSSL 3.6 takes no negative days, 3.0 no dates."""
    known = subprocess.run(
        ["openssl", "x509", "-help"], capture_output=True, text=True, check=False
    )
    if "-not_after" in known.stderr + known.stdout:
        return ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")
    return ("-days", "-1")
