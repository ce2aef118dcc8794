"""One server process (a JVM) under a supervisor: start, stop, kill, pause."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from orderly.errors import EmbeddedBrokerError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_STOP_TIMEOUT = 20.0  # seconds; the supervisor itself kills after 15


class ServerProcess:
    """A running command that cannot outlive this process. Not thread-safe.

    Args:
        name: for error texts: "broker".
        command: program and arguments.
        log: file that its output is appended to.
        env: its environment.

    Raises:
        EmbeddedBrokerError: it could not be started.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self._supervisor = subprocess.Popen(  # noqa: S603 - our own supervisor
            [sys.executable, str(_SUPERVISOR), str(log), "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,  # Ctrl-C in the terminal is for us, not for it
        )
        assert self._supervisor.stdout is not None
        line = self._supervisor.stdout.readline()
        if not line:
            raise EmbeddedBrokerError(f"the {name} could not be started: {' '.join(command[:1])}")
        self.pid = int(line)

    @property
    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._supervisor.poll() is None

    def stop(self) -> None:
        """End it with SIGTERM, after 15 s with SIGKILL; waits until it is gone. Idempotent."""
        self._close_input()
        self._wait()

    def kill(self) -> None:
        """End it with SIGKILL and wait until it is gone. Idempotent."""
        self.signal(signal.SIGKILL)
        self._wait()

    def signal(self, number: int) -> None:
        """Send a signal to the command; without effect if it is gone."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        if not self.log.is_file():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _wait(self) -> None:
        try:
            self._supervisor.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._supervisor.kill()
            self._supervisor.wait(_STOP_TIMEOUT)
        self._close_input()
        assert self._supervisor.stdout is not None
        self._supervisor.stdout.close()

    def _close_input(self) -> None:
        assert self._supervisor.stdin is not None
        with contextlib.suppress(OSError):
            self._supervisor.stdin.close()
