"""Standard input and output as a command may find them: closed, of few characters, left early."""

from __future__ import annotations

import io
import os
import sys


def mend() -> None:
    """Make what is missing: a closed stream is an empty one, and no character is too much.

    Otherwise an answer with a name in another script ends in an error where only ASCII goes out.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # as after `<&-` and `>&-`
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def discard() -> None:
    """Write to nobody from now on, when the reader of stdout has left (`orderly backlog | head`).

    The interpreter's last flush would fail loudly.
    """
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
