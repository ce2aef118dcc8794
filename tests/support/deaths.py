"""How a handler may end its whole process: from within, by a signal, and by a defect in C code."""

import ctypes
import os
import signal


def exit_at_once():
    """As a library does that gives up."""
    os._exit(3)


def kill_itself():
    """As the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def segfault():
    """As an extension module with a wild pointer does."""
    ctypes.string_at(0)


DEATHS = {"exit": exit_at_once, "sigkill": kill_itself, "segfault": segfault}
