"""RocketMQ's own administration tool, `mqadmin`, run from the embedded broker's jars.

What it prints about a group of ours is what an operator who never heard of this library sees.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from orderly.testing.java import find_java
from tests.support.java import SMALL, broker_classpath
from tests.support.java_member import quiet_options

MAIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


_TIMED_OUT = "RemotingTimeoutException"
_TRIES = 3


def run(*arguments, namesrv, within=60):
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
        command = [find_java(), *options, "-cp", class_path, MAIN, *arguments, "-n", namesrv]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=within, cwd=directory
        )


def table(output, first):
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


def value(output, name):
    """What stands behind "name:"."""
    (found,) = re.findall(rf"^{re.escape(name)}\s*: (.*)$", output, re.MULTILINE)
    return found.strip()
