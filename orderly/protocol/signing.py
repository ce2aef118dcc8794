"""Signatures of requests, as brokers with access control demand them (ACL 1.0 and 2.0 alike).

The signature covers the values of all ext fields in the order of their names, without the names
and without a separator, and then the body (Java: AclClientRPCHook, AclUtils.combineRequestContent,
AclSigner). It does not cover code, request id, language and flag. Replies carry none.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from dataclasses import dataclass, field, replace

from orderly.protocol.frame import RemotingCommand

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the field's name on the wire
SIGNATURE = "Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who sends requests, and what they are signed with; its repr shows none of it.

    Attributes:
        access_key: the user's name at the broker.
        secret_key: the user's password; it is never sent.
        security_token: sent along if it is not empty; for who hands out keys for a while.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


def signed(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return `command` with the fields that say who sends it; it must not change any more.

    A copy, so that neither key nor token stay in a command that its maker may keep or show.
    """
    ext = command.ext | {ACCESS_KEY: credentials.access_key}
    if credentials.security_token:
        ext[SECURITY_TOKEN] = credentials.security_token
    values = "".join(ext[name] for name in sorted(ext) if name != SIGNATURE)
    # A lone surrogate is not ours to refuse: writing the frame does.
    content = values.encode("utf-8", "surrogatepass") + command.body
    digest = hmac.digest(credentials.secret_key.encode(), content, "sha1")
    return replace(command, ext=ext | {SIGNATURE: b64encode(digest).decode()}, json_ext=None)
