"""Files that are on disk when the call returns, and a lock between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from orderly.errors import OrderlyError

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
        path: need not be there; a link is replaced itself, so that nobody chooses by one what is
            overwritten.
        mode: as of `synced`; that of the file before is not kept.

    Raises:
        OSError: it cannot be written, or is a device.
    """
    if is_device(path):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
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


def is_device(path: Path) -> bool:
    """Whether a path is a device, a pipe, or the system's name for one: never to be replaced."""
    of_system = path.is_symlink() and path.absolute().parts[1:2] in {("dev",), ("proc",)}
    return of_system or (path.exists() and not path.is_file())


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


# --- a file that one process holds until it ends, however it ends ---------------------------------


def hold(path: Path, refusal: OrderlyError) -> TextIO:
    """Lock `path` until the returned file is closed or this process ends.

    Two holders in one process refuse each other, too. The file itself stays: whoever removed it
    would let two others each lock a file of that name.

    Args:
        path: made if it is not there; its folder must be. A link is not followed.
        refusal: raised if somebody holds it; says what is in use, and what to do.

    Raises:
        OrderlyError: `refusal`.
        OSError: the file cannot be opened, is a link, or its file system has no locks.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    file = os.fdopen(os.open(path, flags, FOR_ALL), "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise refusal from error
    except BaseException:
        file.close()
        raise
    return file
