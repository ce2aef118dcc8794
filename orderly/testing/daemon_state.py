"""What is written down of the broker of `orderly broker start`: where it runs, its last ports.

Cheap to import: every command without a name server looks here. A file left behind by a killed
process, or a process id that now belongs to another program, counts as "not running".
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orderly.durable_file import replacing
from orderly.errors import EmbeddedBrokerError
from orderly.testing.cache import cache_folder


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running broker, as in its state file. By `birth` its process differs from a later one."""

    pid: int
    birth: str
    namesrv: str
    broker: str
    directory: str
    started_at: str
    properties: Mapping[str, str] = field(default_factory=dict)


def state_file() -> Path:
    """Where the state is kept."""
    return cache_folder() / "broker.json"


def find() -> Daemon | None:
    """Return the running daemon, or None."""
    try:
        daemon = Daemon(**json.loads(state_file().read_text()))
    except (OSError, ValueError, TypeError, EmbeddedBrokerError):  # none, or not ours to read
        return None
    return daemon if birth_of(daemon.pid) == daemon.birth else None


def write(daemon: Daemon) -> None:
    """Write down that `daemon` runs, and its ports for the next start."""
    _replace(state_file(), asdict(daemon))
    _replace(_ports_file(), {"namesrv": _port(daemon.namesrv), "broker": _port(daemon.broker)})


def forget() -> None:
    """Write down that no daemon runs; its ports are kept."""
    state_file().unlink(missing_ok=True)


def last_ports() -> tuple[int, int]:
    """The ports of the name server and the broker that ran last; (0, 0) if none did."""
    try:
        found = json.loads(_ports_file().read_text())
        return int(found["namesrv"]), int(found["broker"])
    except (OSError, ValueError, TypeError, KeyError):  # none, or not ours to read
        return 0, 0


def birth_of(pid: int) -> str | None:
    """When a process began, in the system's form; None if there is no such one."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            return None if fields[0] == "Z" else fields[19]  # a zombie has ended
        return None
    import subprocess  # noqa: PLC0415  only where there is no /proc

    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or None


def _ports_file() -> Path:
    return cache_folder() / "broker-ports.json"


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _replace(path: Path, value: Any) -> None:
    with replacing(path) as file:
        file.write(json.dumps(value, indent=2).encode())
