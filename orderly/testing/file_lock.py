"""A lock between processes: a file that one of them holds until it ends, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

from orderly.errors import EmbeddedBrokerError


def hold(path: Path, what: str) -> TextIO:
    """Lock `path` until the returned file is closed or this process ends.

    Args:
        path: made if it is not there; its folder must be.
        what: what the lock protects, for the error: "the directory /x".

    Raises:
        EmbeddedBrokerError: another process, or this one, holds it.
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise EmbeddedBrokerError(f"{what} is in use by another broker; stop that one") from error
    return file
