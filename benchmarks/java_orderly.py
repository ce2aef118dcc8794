"""The rate of the real Java client's ordered consumer, in a JVM of its own with default options."""

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.lane_backlog import WARM, new_group
from tests.support.java import broker_classpath, compile_java, require_jdk
from tests.support.java_member import quiet_options

SOURCE = Path(__file__).with_name("JavaOrderly.java")
TIMEOUT = 120.0


@contextlib.contextmanager
def compiled():
    """Compile the program once; gives its command line without the arguments."""
    with tempfile.TemporaryDirectory() as name:
        _, java = require_jdk()
        folder = Path(name)
        compile_java(SOURCE, folder)
        class_path = os.pathsep.join([name, broker_classpath()])
        yield [java, *quiet_options(folder), "-cp", class_path, SOURCE.stem]


def rate(command, namesrv, topic, count, sleep_ms):
    """Messages per second of one run in a new group, by the JVM's own clock."""
    arguments = [namesrv, new_group(), topic, *map(str, (count, WARM, sleep_ms))]
    done = subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True, timeout=TIMEOUT
    )
    said = json.loads(done.stdout)
    return said["messages"] / said["seconds"]
