"""Local servers in one directory: installed, started, watched and ended together.

What `EmbeddedBroker`, `EmbeddedCluster` and `EmbeddedProxy` are built on. Each server is a process
(a JVM) under a supervisor and ends with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from orderly.config.arguments import check_arguments, check_function, check_given, check_texts
from orderly.durable_file import hold
from orderly.errors import EmbeddedBrokerError, LifecycleError
from orderly.testing import settings
from orderly.testing.jars import Progress, fetch_jars, listed_jars
from orderly.testing.java import find_java
from orderly.testing.loopback import changed_classes
from orderly.testing.ports import on_free_ports

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_STOP_TIMEOUT = 20.0  # seconds; the supervisor itself kills after 15
_PAUSE_TIMEOUT = 30.0  # seconds until all threads of a process have stopped: mostly milliseconds
_POLL = 0.001
_AT_REST = frozenset("TtZX")  # states of threads in /proc: stopped, or ended
_STARTS = 5  # of a server that ends for a reason that passes
# Such reasons, by what the log says at its end.
_PASSING = (
    # Brokers and proxies list the machine's network interfaces and ask each whether it is up
    # (NetworkUtil). They end if one goes meanwhile, as a container's network does at its end.
    "NetworkUtil.normalizeHostAddress",
    # A proxy ends if its broker takes more than 3 s to make the topic by which proxies know of
    # each other's members, as on a busy machine.
    "create system broadcast topic",
)
# What a machine lacks that a server needs, by the same.
_LACKS = {
    "org.rocksdb.NativeLibraryLoader": "the C++ library libstdc++ (Debian: apt install libstdc++6)",
}


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

    def pause(self) -> None:
        """Stop it where it is (SIGSTOP); no thread of it runs when this returns.

        The signal goes to one thread. The others stop when a busy machine has run that one.

        Raises:
            EmbeddedBrokerError: some threads still run after 30 s.
        """
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + _PAUSE_TIMEOUT
        while self.alive and not _is_stopped(self.pid):
            if time.monotonic() > deadline:
                raise EmbeddedBrokerError(
                    f"the {self.name} (process {self.pid}) did not stop within"
                    f" {_PAUSE_TIMEOUT:g} s of SIGSTOP; is the machine overloaded?"
                )
            time.sleep(_POLL)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self.signal(signal.SIGCONT)

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


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped; True as well where no /proc shows them."""
    threads = Path(f"/proc/{pid}/task")
    return all(_state(thread / "stat") in _AT_REST for thread in threads.glob("*"))


def _state(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"  # it has ended meanwhile


# --- the servers of one directory -----------------------------------------------------------------


class LocalServer:
    """A name server or broker: a process, and what it takes to start it again. Not thread-safe.

    Args:
        name: for error texts: "broker".
        command: makes program and arguments from its jars.
        jars: its class path.
        home: its directory.
        log: file that its output is appended to.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[Sequence[Path]], Sequence[str]],
        jars: Sequence[Path],
        home: Path,
        log: Path,
    ) -> None:
        self.name = name
        self._command = command
        self._jars = jars
        self._home = home
        self._log = log
        self._starts = 0
        self.process = self._launch()

    def problem(self) -> str | None:
        """Why it cannot come up, in words, or None.

        A server that ended for a reason that passes is started again, up to five times in all.
        """
        if self.process.alive:
            return None
        end = self.process.tail()
        if self._starts < _STARTS and any(reason in end for reason in _PASSING):
            self._again()
            return None
        lacks = [what for sign, what in _LACKS.items() if sign in end]
        return f"{self.name} ended at its start" + "".join(f": it needs {it}" for it in lacks)

    def restart(self, jars: Path | None = None) -> None:
        """End it if it runs, and start it with its settings and data; does not wait for it.

        Args:
            jars: a list of jars: from now on it runs these, of another release for example.

        Raises:
            JarsUnavailable: they cannot be had; it runs on.
        """
        if jars is not None:
            self._jars = fetch_jars(jars=listed_jars(jars))
        self._starts = 0
        self._again()

    def pause(self) -> None:
        """Stop the process where it is; see `ServerProcess.pause`."""
        self.process.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        self.process.resume()

    def _again(self) -> None:
        self.process.stop()
        self.process = self._launch()

    def _launch(self) -> ServerProcess:
        self._starts += 1
        env = {k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"}
        env |= {"ROCKETMQ_HOME": str(self._home)}
        return ServerProcess(self.name, self._command(self._jars), self._log, env)


class Site:
    """A directory with servers. One thread at a time.

    Args:
        directory: where data and logs go, kept afterwards; None: a temporary one, removed at
            the end.
        java_options: further options of all JVMs.
        progress: called during the download, see `jars.Progress`.
        jars: a list of the servers' jars, see `listed_jars`.
        proxy: whether one of the servers is a proxy.

    Attributes:
        jars: where they are, once it was started.

    Raises:
        ConfigError: an argument of another kind.
    """

    def __init__(
        self,
        directory: Path | None = None,
        java_options: Sequence[str] = (),
        progress: Progress | None = None,
        jars: Path | None = None,
        proxy: bool = False,
    ) -> None:
        check_given("directory", directory, Path)
        check_given("jars", jars, Path)
        check_texts("java_options", java_options)
        if progress is not None:
            check_function("progress", progress)
            check_arguments("progress", progress, "present", "total")
        self._keep = directory is not None
        self._directory = directory
        self._java_options = tuple(java_options)
        self._progress = progress
        self._list = jars
        self._java = Path()
        self._proxy = proxy
        self.jars: Sequence[Path] = ()
        self._lock: TextIO | None = None
        self._servers: list[LocalServer] = []

    @property
    def directory(self) -> Path:
        """Where data and logs are."""
        if self._directory is None:
            raise LifecycleError("the embedded broker is not started")
        return self._directory

    @property
    def running(self) -> bool:
        """Whether servers were started and not ended."""
        return bool(self._servers)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the servers that are alive, in the order of their start."""
        return tuple(s.process.pid for s in self._servers if s.process.alive)

    def start(self, build: Callable[[], None], *, ours: bool) -> None:
        """Download what is missing and start servers; nothing is left of a failed start.

        Args:
            build: chooses ports, adds servers and waits for them.
            ours: whether it may choose other ports where somebody took one.

        Raises:
            EmbeddedBrokerError: no Java, no jars, a directory in use, or what `build` raised.
            LifecycleError: it runs.
        """
        if self.running:
            raise LifecycleError("the embedded broker is already running")
        self._java = find_java()
        self.jars = fetch_jars(
            jars=listed_jars(self._list, proxy=self._proxy), progress=self._progress
        )

        def begin() -> None:
            atexit.register(self.stop)  # each time: what undoes a failed start takes it off
            self._open()
            build()

        on_free_ports(begin, self.stop, ours=ours)

    def add(
        self,
        name: str,
        main: str,
        properties: Mapping[str, object],
        home: Path | None = None,
    ) -> LocalServer:
        """Write a server's settings and start it; does not wait for it.

        Args:
            name: for error texts.
            main: settings.NAME_SERVER, BROKER or PROXY.
            properties: its settings.
            home: its directory; None: the site's. One of each kind at most may share one.
        """
        home = home or self.directory
        conf = home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (home / "tmp").mkdir(exist_ok=True)
        role = settings.ROLES[main]
        for file, text in settings.logging_files(role).items():
            (conf / file).write_text(text)
        (conf / f"{role}.conf").write_text(settings.as_text(properties, main=main))

        def command(jars: Sequence[Path]) -> list[str]:
            for file, content in changed_classes(main, jars).items():
                (conf / file).parent.mkdir(parents=True, exist_ok=True)
                (conf / file).write_bytes(content)
            return settings.java_command(self._java, main, jars, home, self._java_options)

        server = LocalServer(name, command, self.jars, home, home / f"{role}.out")
        self._servers.append(server)
        return server

    def problem(self) -> str | None:
        """Which server cannot come up, in words, or None; see `LocalServer.problem`."""
        problems = (server.problem() for server in self._servers)
        return next((f"the {problem}" for problem in problems if problem), None)

    def report(self, what: str) -> str:
        """Make an error's text: `what`, and the end of every log."""
        processes = [server.process for server in self._servers]
        logs = [f"--- {process.log}\n{process.tail()}" for process in processes]
        return "\n".join([f"the embedded broker did not start: {what}", *logs])

    def stop(self) -> None:
        """End all servers and wait until they are gone. Idempotent.

        A clean shutdown takes about 10 s. If the directory is temporary, they are killed at once.
        """
        atexit.unregister(self.stop)
        for server in self._servers:
            server.resume()  # a paused process cannot end
        processes = [server.process for server in self._servers]
        ends = [process.stop if self._keep else process.kill for process in processes]
        stopping = [threading.Thread(target=end) for end in ends]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        self._servers.clear()
        self._close()

    def _open(self) -> None:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="orderly-broker-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        in_use = f"the directory {self._directory} is in use by another broker; stop that one"
        self._lock = hold(self._directory / "lock", EmbeddedBrokerError(in_use))

    def _close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if not self._keep and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
