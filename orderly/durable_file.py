"""Files and names that are on disk when they are said to be: what a power cut leaves whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

FOR_ALL = 0o666
"""The mode of a file that others are to read, where the process's umask lets them."""


@contextmanager
def synced(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A new file to write; on disk when the block ends without an error.

    Give it another's name only then, or the name may be left with nothing behind it. What a
    process that died left there is removed. Where others can write to the folder, nobody can have
    it written to another place: no link is followed, and no file of theirs is taken.

    Args:
        path: of the file.
        mode: who may read and write it, less what the process's umask takes away.

    Raises:
        OSError: it cannot be written.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file that takes the place of `path`, on disk, when the block ends without an error.

    After an error `path` is as it was. Several may be written at a time: the last one stays.

    Args:
        path: need not be there; a link is replaced itself.
        mode: as of `synced`; that of the file before is not kept.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f".orderly-{secrets.token_hex(8)}.new")
    try:
        with synced(part, mode) as file:
            yield file
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)


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
