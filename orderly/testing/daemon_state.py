"""What is written down of the brokers of `orderly broker start`: where each runs, its last ports.

Each has a name, and in the cache a folder of its own: its state, its ports, its data. Cheap to
import: every command without a name server looks here. A file left behind by a killed process, or a
process id that now belongs to another program, counts as "not running".
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orderly.durable_file import replacing
from orderly.errors import EmbeddedBrokerError
from orderly.testing.cache import cache_folder

DEFAULT = "default"  # the broker that commands without a name server use


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running broker, as in its state file. By `birth` its process differs from a later one.

    `started_in` is the folder of whoever started it: by it one knows whose broker it is.
    """

    pid: int
    birth: str
    namesrv: str
    broker: str
    directory: str
    started_at: str
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str = DEFAULT
    started_in: str = ""


def home(name: str) -> Path:
    """The folder of the broker of that name."""
    return cache_folder() / "brokers" / name


def state_file(name: str) -> Path:
    """Where its state is kept."""
    return home(name) / "state.json"


def find_all() -> Iterator[Daemon]:
    """Find all that run, by name."""
    with contextlib.suppress(OSError, EmbeddedBrokerError):  # there never was one
        for folder in sorted(home(DEFAULT).parent.iterdir()):
            if daemon := find(folder.name):
                yield daemon


def find(name: str = DEFAULT) -> Daemon | None:
    """Return the daemon of that name, if it runs; else None."""
    try:
        daemon = Daemon(**json.loads(state_file(name).read_text()))
    except (OSError, ValueError, TypeError, EmbeddedBrokerError):  # none, or not ours to read
        return None
    return daemon if birth_of(daemon.pid) == daemon.birth else None


def write(daemon: Daemon) -> None:
    """Write down that `daemon` runs, and its ports for the next start."""
    _replace(state_file(daemon.name), asdict(daemon))
    _replace(
        _ports_file(daemon.name), {"namesrv": _port(daemon.namesrv), "broker": _port(daemon.broker)}
    )


def forget(name: str) -> None:
    """Write down that it no longer runs; its ports are kept."""
    state_file(name).unlink(missing_ok=True)


def last_ports(name: str) -> tuple[int, int]:
    """The ports of its name server and its broker when it ran last; (0, 0) if it never did."""
    try:
        found = json.loads(_ports_file(name).read_text())
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


def _ports_file(name: str) -> Path:
    return home(name) / "ports.json"


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _replace(path: Path, value: Any) -> None:
    with replacing(path) as file:
        file.write(json.dumps(value, indent=2).encode())
