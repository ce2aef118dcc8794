"""The broker that outlives the command that started it: `orderly broker start | stop | status`.

One per user (or per ORDERLY_CACHE). A small JSON file says where it is; a file left behind by a
killed process, or a process id that now belongs to another program, counts as "not running".
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from orderly.errors import EmbeddedBrokerError
from orderly.testing.embedded import START_TIMEOUT, EmbeddedBroker
from orderly.testing.jars import cache_folder

_STOP_TIMEOUT = 45.0  # seconds; a clean shutdown takes about 10
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running broker, as its state file tells it. `birth` tells its process from a later one."""

    pid: int
    birth: str
    namesrv: str
    broker: str
    directory: str
    started_at: str


def state_file() -> Path:
    """Where the state is kept."""
    return cache_folder() / "broker.json"


def default_directory() -> Path:
    """Where the daemon's data and logs are, unless the user says otherwise."""
    return cache_folder() / "broker"


def find() -> Daemon | None:
    """Return the running daemon, or None."""
    try:
        daemon = Daemon(**json.loads(state_file().read_text()))
    except (OSError, ValueError, TypeError):  # none, or not ours to read
        return None
    return daemon if _birth(daemon.pid) == daemon.birth else None


def launch(arguments: Sequence[str]) -> Daemon:
    """Start the daemon in the background and wait until it is ready.

    Args:
        arguments: passed on to `orderly broker start --foreground`.

    Raises:
        EmbeddedBrokerError: it did not come up; the text has what it said.
    """
    log = state_file().with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    code = "from orderly.cli import main; main()"
    command = [sys.executable, "-c", code, "broker", "start", "--foreground", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this very program
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT + _STOP_TIMEOUT
    while time.monotonic() < deadline:
        daemon = find()
        if daemon is not None and daemon.pid == process.pid:
            return daemon
        if process.poll() is not None:
            said = log.read_text(errors="replace").strip()
            raise EmbeddedBrokerError(said.removeprefix("error: ") or "the broker ended at once")
        time.sleep(_POLL)
    process.terminate()
    raise EmbeddedBrokerError(f"the broker did not come up in time; see {log}")


def serve(broker: EmbeddedBroker) -> None:
    """Run `broker` in this process until SIGTERM or SIGINT.

    Raises:
        EmbeddedBrokerError: it did not start.
    """
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with broker:
        _write(broker)
        try:
            while not ended.wait(1.0):
                if len(broker.pids) < 2:
                    raise EmbeddedBrokerError(
                        f"the name server or the broker ended by itself; see {broker.directory}"
                    )
        finally:
            state_file().unlink(missing_ok=True)


def stop(daemon: Daemon) -> None:
    """End the daemon and wait until it is gone.

    Raises:
        EmbeddedBrokerError: it did not end in time, and was killed.
    """
    os.kill(daemon.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT
    while _birth(daemon.pid) == daemon.birth:
        if time.monotonic() > deadline:
            os.kill(daemon.pid, signal.SIGKILL)
            raise EmbeddedBrokerError(
                f"the broker (process {daemon.pid}) did not end within {_STOP_TIMEOUT:g} s and"
                " was killed; its data may have to recover at the next start"
            )
        time.sleep(_POLL)


def _write(broker: EmbeddedBroker) -> None:
    pid = os.getpid()
    daemon = Daemon(
        pid=pid,
        birth=_birth(pid) or "",
        namesrv=broker.namesrv,
        broker=broker.broker_address,
        directory=str(broker.directory),
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )
    path = state_file()
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(daemon), indent=2))
    temporary.replace(path)


def _birth(pid: int) -> str | None:
    """When a process began, in whatever form the system tells it; None if there is no such one."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            return None if fields[0] == "Z" else fields[19]  # a zombie has ended
        return None
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or None
