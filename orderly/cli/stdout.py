"""When the reader of stdout leaves before the end, as in `orderly backlog | head`."""

from __future__ import annotations

import os
import sys


def discard() -> None:
    """Write to nobody from now on; otherwise the interpreter's last flush would fail loudly."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
