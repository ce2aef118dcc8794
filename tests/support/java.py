"""Java programs in tests: what is compiled here, the Java client's consumer, and `mqadmin`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from orderly.model import MessageQueue
from orderly.ordering.allocation import STRATEGIES, by_config, consistent_hash
from orderly.ordering.allocation_rooms import machine_room, machine_room_nearby
from orderly.testing import Delivered
from orderly.testing.jars import fetch_jars, listed_jars
from orderly.testing.java import find_java
from orderly.testing.settings import LOGBACK
from tests.support.optional import require

# --- java -----------------------------------------------------------------------------------------
# Java programs in tests: compiled by the JDK of the machine against the embedded broker's jars.


MOST_SECONDS = 120
SMALL = ("-Xmx128m", "-XX:TieredStopAtLevel=1")
"""Options of `java` for a program that runs briefly beside other tests."""

# Without one of its own, the client takes the broker's logging set-up from the class path: that
# writes to the standard output and to files in the home folder.
SILENT_LOGGING = """<configuration>
  <statusListener class="org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener"/>
</configuration>
"""


def broker_classpath(jars: Path | None = None) -> str:
    """Return the jars of RocketMQ's client and server, joined; downloads those that are missing.

    Args:
        jars: a list of those of another release.
    """
    return os.pathsep.join(str(jar) for jar in fetch_jars(jars=listed_jars(jars)))


def compile_java(source: Path, target: Path, jars: Path | None = None) -> None:
    """Compile one file of Java into the folder `target`; `jars` as of `broker_classpath`."""
    javac, _ = require("jdk")
    options = ["-encoding", "UTF-8", "-cp", broker_classpath(jars), "-d", str(target)]
    _run([javac, *options, str(source)])


def run_java(classes: Path, main: str, given: str = "") -> str:
    """Run the class `main` of the folder `classes`, without logging; returns what it prints.

    Args:
        classes: where `compile_java` put it.
        main: name of the class.
        given: the program's input; input and output are UTF-8.
    """
    _, java = require("jdk")
    (classes / "rmq.logback-test.xml").write_text(SILENT_LOGGING)
    classpath = os.pathsep.join([str(classes), broker_classpath()])
    return _run([java, *SMALL, "-cp", classpath, main], given)


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(
        command,
        check=False,
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=MOST_SECONDS,
    )
    if done.returncode != 0:
        pytest.fail(f"{command[0]} … {command[-1]} failed:\n{done.stderr}")
    return done.stdout


# --- foreign member -------------------------------------------------------------------------------
# A member of the group that is not ours, in its own process: the ordered consumer of the Java
# client or of the Go client.
#
# `compile_member` builds Java's, `build_go_member` Go's; each `ForeignMember` is one run. What it
# handles arrives as `Delivered` records, read from its output by a thread. Times are wall clock,
# cut to milliseconds, so that they compare with `wall_clock` here.


SOURCE = Path(__file__).with_name("JavaMember.java")
GO_SOURCE = Path(__file__).with_name("go_member")
START_TIMEOUT = 90.0
STOP_TIMEOUT = 30.0


def wall_clock():
    """Seconds since 1970, cut to milliseconds as Java's clock is."""
    return int(time.time() * 1000) / 1000


def compile_member(directory, jars=None):
    """Compile the program into `directory`; returns the command that runs it there.

    `jars`: a list of those of another release.
    """
    _, java = require("jdk")
    compile_java(SOURCE, directory, jars)
    options = [*SMALL, *quiet_options(directory)]
    class_path = os.pathsep.join([str(directory), broker_classpath(jars)])
    return [java, *options, "-cp", class_path, SOURCE.stem]


def quiet_options(directory):
    """Options of a Java client that logs into `directory`, which is to be first in its class path.

    Otherwise it takes the settings of the broker, whose jars are there too, and logs to stdout.
    """
    (directory / "rmq.logback.xml").write_text(LOGBACK)
    return [f"-Duser.home={directory}", f"-Dorderly.log={directory / 'client.log'}"]


def build_go_member(directory):
    """Build Go's program into `directory`; returns the command."""
    (go,) = require("go")
    program = directory / "member"
    command = [go, "build", "-o", str(program), "."]
    done = subprocess.run(command, cwd=GO_SOURCE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [str(program)]


class ForeignMember:
    """One run of the program; as a context manager it is killed at the end if it still runs.

    Its handler may be in `trouble`: "blocked" or "suspended".

    Attributes: client_id, and deliveries, which another thread appends to.
    """

    def __init__(self, command, namesrv, group, topic, trouble=""):
        self.deliveries = []
        self.client_id = None
        self._started = threading.Event()
        self._process = subprocess.Popen(
            [*command, namesrv, group, topic, trouble],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=work, name=f"orderly-test-member-{role}", daemon=True)
            for role, work in (("deliveries", self._read), ("errors", self._read_errors))
        ]
        self._errors = ""
        for reader in self._readers:
            reader.start()

    def wait_started(self):
        """Wait until it has joined the group; returns the member itself."""
        if not self._started.wait(START_TIMEOUT):
            self.kill()
            raise AssertionError(f"the member did not start: {self._errors}")
        return self

    def stop(self):
        """Let it shut down cleanly (it unlocks its queues) and wait until it is gone."""
        self._process.stdin.close()
        self._end(STOP_TIMEOUT)

    def kill(self):
        """End it with SIGKILL: it saves and unlocks nothing."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._end(STOP_TIMEOUT)

    @contextlib.contextmanager
    def stopped(self):
        """Stop it (SIGSTOP) while the block runs; none of its threads runs when that begins."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self.wait_started()

    def __exit__(self, *exc_info):
        if self._process.poll() is None:
            self.kill()

    def _end(self, timeout):
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the member did not end within {timeout:g} s") from None
        for reader in self._readers:
            reader.join()

    def _read(self):
        with self._process.stdout as lines:
            for line in lines:
                kind, *fields = line.split("\t")
                if kind == "started":
                    self.client_id = fields[0].strip()
                    self._started.set()
                elif kind == "delivered" and line.endswith("\n"):  # not one cut by a kill
                    self.deliveries.append(_delivered(*fields))

    def _read_errors(self):
        with self._process.stderr as errors:
            self._errors = errors.read()


def _delivered(key, body, queue_id, offset, start, end):
    return Delivered(
        key=key,
        id=(key, int(body)),
        queue=int(queue_id),
        offset=int(offset),
        started=int(start) / 1000,
        ended=int(end) / 1000,
    )


# --- mqadmin --------------------------------------------------------------------------------------
# RocketMQ's own administration tool, `mqadmin`, run from the embedded broker's jars.
#
# What it prints about a group of ours is what an operator who never heard of this library sees.


MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


_TIMED_OUT = "RemotingTimeoutException"
_TRIES = 3


def mqadmin(*arguments, namesrv, within=60):
    """Run `mqadmin` with these arguments; returns what it printed, or fails with its error.

    A run takes about 4 s, 3 of them for the end of its client. A JVM that starts on a busy machine
    may let the tool's own time-out of 5 s pass, so that one is no answer, and it is run again.
    """
    for tries_left in reversed(range(_TRIES)):
        done = _run_once(arguments, namesrv, within)
        if not (tries_left and _TIMED_OUT in done.stderr):
            break
    # It ends with 0 also when it failed, and then has printed a stack trace.
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr, done.stderr
    return done.stdout


def _run_once(arguments, namesrv, within):
    with tempfile.TemporaryDirectory() as directory:
        class_path = os.pathsep.join([directory, broker_classpath()])
        options = [*SMALL, *quiet_options(Path(directory))]
        command = [find_java(), *options, "-cp", class_path, MQADMIN, *arguments, "-n", namesrv]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=within, cwd=directory
        )


def mqadmin_table(output, first):
    """The rows below the line of headings that begins with `#first`: dicts by heading."""
    lines = output.splitlines()
    headings = next(i for i, line in enumerate(lines) if line.startswith(f"#{first}"))
    names = [name.strip() for name in lines[headings].split("#")[1:]]
    return [dict(zip(names, row, strict=True)) for row in _rows(lines[headings + 1 :], len(names))]


def _rows(lines, columns):
    for line in lines:
        if not line.strip():
            return
        yield line.split(maxsplit=columns - 1)


def mqadmin_value(output, name):
    """What stands behind "name:"."""
    (found,) = re.findall(rf"^{re.escape(name)}\s*: (.*)$", output, re.MULTILINE)
    return found.strip()


# --- allocations ----------------------------------------------------------------------------------
# Cases of allocation as lines of text, read alike by Python and by JavaAllocation.java.
#
#     strategy and its settings | topic | broker:queues ... | member ...
#
# and what is allocated: the members' shares in the order of the sorted ids, joined by "; ", each
# of them "broker:queue_id ..." in the order the strategy gave, or "-" for none.


def answered(path):
    """Return {case: its answer} of a file with lines "case = answer"."""
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split(" = ") for line in lines if not line.startswith("#"))


def shares(case):
    """Return what Python allocates in the case."""
    strategy, topic, brokers, members = case.split(" | ")
    queues = sorted(
        MessageQueue(topic, last.broker_name, queue_id)
        for last in map(_queue_reader(topic), brokers.split(" "))
        for queue_id in range(last.queue_id)
    )
    members = sorted(members.split(" "))
    allocate = _strategy(topic, strategy.split(" "))
    return "; ".join(
        " ".join(f"{q.broker_name}:{q.queue_id}" for q in allocate(member, queues, members)) or "-"
        for member in members
    )


def _strategy(topic, words):
    name, *settings = words
    match name:
        case "consistent-hash" if settings:
            return consistent_hash(int(settings[0]))
        case "config":
            return by_config(map(_queue_reader(topic), settings))
        case "room":
            return machine_room(settings)
        case "nearby":
            return machine_room_nearby(_strategy(topic, settings), before_at, before_at)
        case _:
            return STRATEGIES[name]


def before_at(name):
    """Return the room of a broker or member: what stands before the first "@"."""
    return name.split("@")[0]


def _queue_reader(topic):
    def read(text):
        broker, _, number = text.rpartition(":")
        return MessageQueue(topic, broker, int(number))

    return read
