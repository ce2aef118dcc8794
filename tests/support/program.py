"""A program in a process of its own, as a user starts it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
SOON = 60  # seconds


@contextmanager
def hearing_ctrl_c():
    """For what is started meanwhile: a script's background programs inherit that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Program:
    """Runs from construction on. What it prints is in files, so that no pipe can fill up.

    Args:
        arguments: of Python: a file and its arguments, or "-m" and a module.
        folder: where its output goes.
        cwd: where it runs.
        environment: variables beside those of this process.
    """

    def __init__(self, arguments, folder, *, cwd=EXAMPLES, **environment):
        self._out, self._errors = folder / f"out-{id(self)}", folder / f"errors-{id(self)}"
        with self._out.open("w") as out, self._errors.open("w") as errors, hearing_ctrl_c():
            self.process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                cwd=cwd,
                stdout=out,
                stderr=errors,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )

    @property
    def lines(self):
        return self._out.read_text().splitlines()

    @property
    def errors(self):
        return self._errors.read_text()

    def says(self, text, within=SOON):
        """Wait until it has printed a line with that text; returns the line."""

        def found():
            ended = self.process.poll() is not None  # before, for it may print and end
            lines = [line for line in self.lines if text in line]
            assert lines or not ended, self.errors
            return lines

        return eventually(found, within, every=0.05)[0]

    def end(self, number=signal.SIGTERM):
        """Tell it to end; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SOON)

    def kill(self):
        """End it at once."""
        self.process.kill()
        self.process.wait()
