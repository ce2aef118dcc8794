"""The broker that outlives the command that started it: `orderly broker start | stop | status`.

Each has a name; a user (or an ORDERLY_CACHE) has one of each name. What is written down of them is
in `daemon_state`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from orderly.durable_file import hold
from orderly.errors import EmbeddedBrokerError
from orderly.foreign_text import shell_word
from orderly.testing.daemon_state import (
    DEFAULT,
    Daemon,
    birth_of,
    find,
    find_all,
    forget,
    home,
    last_ports,
    write,
)
from orderly.testing.embedded import EmbeddedBroker
from orderly.testing.ports import is_free
from orderly.testing.readiness import START_TIMEOUT

_STOP_TIMEOUT = 45.0  # seconds; a clean shutdown takes about 10
_POLL = 0.1
_BUSY = EmbeddedBrokerError("another broker uses the local broker's state; stop that one")


def default_directory(name: str = DEFAULT) -> Path:
    """Where a broker's data and logs are, unless the user says otherwise."""
    return home(name) / "data"


def launch(name: str, arguments: Sequence[str]) -> Daemon:
    """Start the daemon in the background and wait until it is ready.

    Args:
        name: of the broker.
        arguments: passed on to `orderly broker start --foreground`.

    Raises:
        EmbeddedBrokerError: it did not come up; the text has what it said.
    """
    log = home(name) / "start.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    code = "from orderly.cli import main; main()"
    command = [sys.executable, "-c", code, "broker", "start", "--foreground"]
    command += ["--name", name, *arguments]
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
        daemon = find(name)
        if daemon is not None and daemon.pid == process.pid:
            return daemon
        if process.poll() is not None:
            said = log.read_text(errors="replace").strip()
            raise EmbeddedBrokerError(said.removeprefix("error: ") or "the broker ended at once")
        time.sleep(_POLL)
    process.terminate()
    raise EmbeddedBrokerError(f"the broker did not come up in time; see {log}")


def ports_to_use(name: str, namesrv_port: int = 0) -> tuple[int, int]:
    """The last ports where they are free, so that an exported ORDERLY_NAMESRV stays valid.

    Args:
        name: of the broker.
        namesrv_port: the name server's, if the user chose it; else 0.

    Returns:
        Ports of name server and broker; 0: any free one.

    Raises:
        EmbeddedBrokerError: the chosen port is taken; the text says whose broker has it.
    """
    if namesrv_port and not is_free(namesrv_port):
        raise EmbeddedBrokerError(_taken(namesrv_port))
    last_namesrv, last_broker = last_ports(name)
    namesrv = namesrv_port or (last_namesrv if is_free(last_namesrv) else 0)
    needed = {last_broker, last_broker - 2, last_broker + 1}
    usable = namesrv not in needed and all(map(is_free, needed))
    return namesrv, last_broker if usable else 0


def _taken(port: int) -> str:
    owner = next((each for each in find_all() if each.namesrv.endswith(f":{port}")), None)
    if owner is None:
        return f"port {port} on 127.0.0.1 is taken by another program; give another --port"
    return (
        f"port {port} is taken by the local broker {owner.name!r}, started in"
        f" {owner.started_in}; give another --port, or"
        f" `orderly broker stop --name {shell_word(owner.name)}`"
    )


def serve(name: str, directory: Path, namesrv_port: int, properties: Mapping[str, str]) -> None:
    """Run a broker in this process until SIGTERM or SIGINT.

    Args:
        name: of the broker.
        directory: where its data and logs go.
        namesrv_port: of the name server; 0: the last one, or a free one.
        properties: of the broker.

    Raises:
        EmbeddedBrokerError: it did not start.
    """
    ports = ports_to_use(name, namesrv_port)
    broker = EmbeddedBroker(
        directory=directory,
        namesrv_port=ports[0],
        broker_port=ports[1],
        broker_properties=properties,
    )
    home(name).mkdir(parents=True, exist_ok=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    # Two that start at the same moment: one of them gets the lock, and is the daemon.
    with hold(home(name) / "lock", _BUSY), broker:
        write(_here(name, broker, properties))
        try:
            while not ended.wait(1.0):
                if len(broker.pids) < 2:
                    raise EmbeddedBrokerError(
                        f"the name server or the broker ended unexpectedly; see {broker.directory}"
                    )
        finally:
            forget(name)


def stop(daemon: Daemon) -> None:
    """End the daemon and wait until it is gone.

    Raises:
        EmbeddedBrokerError: it did not end in time, and was killed.
    """
    os.kill(daemon.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT
    while birth_of(daemon.pid) == daemon.birth:
        if time.monotonic() > deadline:
            os.kill(daemon.pid, signal.SIGKILL)
            raise EmbeddedBrokerError(
                f"the broker (process {daemon.pid}) did not end within {_STOP_TIMEOUT:g} s and"
                " was killed; its data may have to recover at the next start"
            )
        time.sleep(_POLL)


def _here(name: str, broker: EmbeddedBroker, properties: Mapping[str, str]) -> Daemon:
    pid = os.getpid()
    return Daemon(
        pid=pid,
        birth=birth_of(pid) or "",
        namesrv=broker.namesrv,
        broker=broker.broker_address,
        directory=str(broker.directory),
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        properties=dict(properties),
        name=name,
        started_in=str(Path.cwd()),
    )
