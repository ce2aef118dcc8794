"""A lock between processes: a file that one of them holds until it ends, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

from orderly.errors import OrderlyError


def hold(path: Path, refusal: OrderlyError) -> TextIO:
    """Lock `path` until the returned file is closed or this process ends.

    Two holders in one process refuse each other, too. The file itself stays: whoever removed it
    would let two others each lock a file of that name.

    Args:
        path: made if it is not there; its folder must be.
        refusal: raised if somebody holds it; says what is in use, and what to do.

    Raises:
        OrderlyError: `refusal`.
        OSError: the file cannot be opened, or its file system has no locks.
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise refusal from error
    except BaseException:
        file.close()
        raise
    return file
