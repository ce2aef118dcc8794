"""A member of the group that is not ours: the Java client's ordered consumer, in its own process.

`compile_member` builds it once; each `JavaMember` is one run of it. What it handles arrives as
`Delivered` records, read from its output by a thread. Times are wall clock, cut to milliseconds,
so that they compare with `wall_clock` here.
"""

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path

from orderly.testing import Delivered
from orderly.testing.settings import LOGBACK
from tests.support.java import SMALL, broker_classpath, compile_java, require_jdk

SOURCE = Path(__file__).with_name("JavaMember.java")
START_TIMEOUT = 90.0
STOP_TIMEOUT = 30.0


def wall_clock():
    """Seconds since 1970, cut to milliseconds as Java's clock is."""
    return int(time.time() * 1000) / 1000


def compile_member(directory):
    """Compile the program into `directory`; returns the command that runs it there."""
    _, java = require_jdk()
    compile_java(SOURCE, directory)
    options = [*SMALL, *quiet_options(directory)]
    class_path = os.pathsep.join([str(directory), broker_classpath()])
    return [java, *options, "-cp", class_path, SOURCE.stem]


def quiet_options(directory):
    """Options of a Java client that logs into `directory`, which is to be first in its class path.

    Otherwise it takes the settings of the broker, whose jars are there too, and logs to stdout.
    """
    (directory / "rmq.logback.xml").write_text(LOGBACK)
    return [f"-Duser.home={directory}", f"-Dorderly.log={directory / 'client.log'}"]


class JavaMember:
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
            threading.Thread(target=work, name=f"orderly-test-java-{role}", daemon=True)
            for role, work in (("deliveries", self._read), ("errors", self._read_errors))
        ]
        self._errors = ""
        for reader in self._readers:
            reader.start()

    def wait_started(self):
        """Wait until it has joined the group; returns the member itself."""
        if not self._started.wait(START_TIMEOUT):
            self.kill()
            raise AssertionError(f"the Java member did not start: {self._errors}")
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

    def signal(self, number):
        """Send it a signal, SIGSTOP say."""
        self._process.send_signal(number)

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
            raise AssertionError(f"the Java member did not end within {timeout:g} s") from None
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
