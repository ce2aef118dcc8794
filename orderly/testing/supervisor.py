"""Runs one command and ends it when the parent process is gone, however that ended.

Run as a file, on the standard library alone: `python supervisor.py LOG -- COMMAND …`. Standard
input is a pipe from the parent: its end (the parent closed it, or died) ends the command. The first
line on standard output is the command's process id.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading

GRACE = 15.0  # seconds from SIGTERM to SIGKILL
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Supervise until the command ends; returns its exit code."""
    parent = os.getppid()
    log, _, *command = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(log, "ab") as output:  # noqa: PTH123 - started often, kept light
        child = subprocess.Popen(  # noqa: S603 - the parent's own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - no other thread exists yet
        )
    print(child.pid, flush=True)  # noqa: T201 - the parent reads it
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    threading.Thread(target=_end_with_parent, args=(child, parent), daemon=True).start()
    return child.wait()


def _end_with_parent(child: subprocess.Popen[bytes], parent: int) -> None:
    # A child that the parent forked keeps the pipe open after the parent's death: look at both.
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], 1.0)
        if readable and not os.read(0, 1024):
            break
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()


def _die_with_parent() -> None:
    """On Linux the kernel kills the command if this supervisor itself is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
