"""Clients for reading: made where they are needed, from settings that hold no secrets.

Python workers live longer than one task, so each process keeps its clients. None of them is
started: no heartbeat, no membership.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from typing import Any

from orderly.client import Client
from orderly.config import ClientConfig


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a cluster. Picklable; secrets are in the file or in the environment.

    Attributes:
        namesrv: "host:port;host:port"; "": the file's, else the environment's.
        settings_file: path of the settings file on this machine and on each worker; "": none.
        settings_context: one of the file's contexts; "": the file's current one.
    """

    namesrv: str = ""
    settings_file: str = ""
    settings_context: str = ""

    def settled(self) -> Access:
        """With the name servers that hold here: workers may have another environment.

        Raises:
            ConfigError: no name server is named, or the settings cannot be read.
        """
        return replace(self, namesrv=self._config().namesrv)

    def client(self) -> Client:
        """A client of its own, for the caller to close.

        Raises:
            ConfigError: as `settled`.
        """
        return Client(self._config())

    def _config(self) -> ClientConfig:
        given: dict[str, Any] = {"namesrv": self.namesrv} if self.namesrv else {}
        path = self.settings_file or None
        return ClientConfig.from_settings(path, self.settings_context, **given)


_lock = threading.Lock()
_kept: dict[tuple[int, Access], Client] = {}


def kept_client(access: Access) -> Client:
    """This process's client for `access`, made at the first call and never closed. Thread-safe.

    Raises:
        ConfigError: as `Access.client`.
    """
    key = (os.getpid(), access)  # a forked worker must not use its parent's connections
    with _lock:
        if key not in _kept:
            _kept[key] = access.client()
        return _kept[key]
