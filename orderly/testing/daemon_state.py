"""What is written down of the brokers of `orderly broker start`: where each runs, its last ports.

Each has a name, and in the cache a folder of its own: its state, its ports, its data. Cheap to
import: every command without a name server looks here, and `stop` sends a signal to the process
that it finds here. So a file left behind by a killed process, a process id of another program, and
a file of another user's all count as "not running".
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from orderly.durable_file import replacing
from orderly.errors import EmbeddedBrokerError
from orderly.testing.cache import cache_folder

DEFAULT = "default"  # the broker that commands without a name server use
_COMMAND = " broker start "  # of the process that runs it
_FIRST = 2  # process ids from there on are of one process, and not the system's own


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
        daemon = _read(state_file(name))
    except (OSError, ValueError, TypeError, EmbeddedBrokerError):  # none, or not ours to read
        return None
    same = birth_of(daemon.pid) == daemon.birth
    return daemon if same and _COMMAND in command_of(daemon.pid) else None


def _read(path: Path) -> Daemon:
    with path.open() as file:
        if os.fstat(file.fileno()).st_uid != os.geteuid():
            raise ValueError("it is another user's")
        daemon = Daemon(**json.load(file))
    pid, properties, *texts = daemon.pid, daemon.properties, *_texts_of(daemon)
    if type(pid) is not int or pid < _FIRST or not isinstance(properties, dict):
        raise ValueError("0 and negative numbers mean many processes, 1 is the system's own")
    if not (daemon.birth and all(isinstance(text, str) for text in texts)):
        raise ValueError("not the state of a broker")
    return daemon


def _texts_of(daemon: Daemon) -> Iterator[object]:
    return (getattr(daemon, each.name) for each in fields(Daemon) if each.type == "str")


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
    if Path("/proc/self").exists():
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return None if stat[0] == "Z" else stat[19]  # a zombie has ended
        return None
    return _of_process(pid, "lstart") or None


def command_of(pid: int) -> str:
    """The command line of a process, its words with a blank between; "" if there is no such one."""
    if Path("/proc/self").exists():
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
        return ""
    return _of_process(pid, "command")


def _of_process(pid: int, what: str) -> str:
    import subprocess  # noqa: PLC0415  only where there is no /proc

    command = ["ps", "-o", f"{what}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603


def _ports_file(name: str) -> Path:
    return home(name) / "ports.json"


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _replace(path: Path, value: Any) -> None:
    with replacing(path) as file:
        file.write(json.dumps(value, indent=2).encode())
