"""Files and names that are on disk when they are said to be: what a power cut leaves whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def synced(path: Path) -> Iterator[BinaryIO]:
    """A new file to write; on disk when the block ends without an error.

    Give it another's name only then, or the name may be left with nothing behind it.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in it survive a power cut.

    Raises:
        OSError: it cannot be opened or written.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
