"""Unique ids for messages (UNIQ_KEY), one series per producer."""

from __future__ import annotations

import ipaddress
import itertools
import os
import secrets
import time

from orderly.protocol.outgoing import unique_key


class MessageIds:
    """Makes ids that no other process makes. Thread-safe.

    Args:
        client_id: "ip@pid#random"; only the address is taken from it.
    """

    def __init__(self, client_id: str) -> None:
        self._ip = _address(client_id.partition("@")[0])
        self._process = secrets.randbits(32)  # two containers may share address and pid
        self._counter = itertools.count(secrets.randbits(16))

    def next(self) -> str:
        """The next id."""
        now, counter = time.time(), next(self._counter)
        return unique_key(self._ip, os.getpid(), self._process, now, counter)


def _address(text: str) -> bytes:
    try:
        return ipaddress.ip_address(text.partition("%")[0]).packed
    except ValueError:  # a name, or nothing: the id needs no true address, only a constant one
        return bytes(4)
