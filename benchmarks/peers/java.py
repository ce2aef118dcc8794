"""The Java client's programs: compiled once, each run in a JVM with default options."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.peers.launch import CHECKOUT, SideFailed
from orderly.testing.jars import fetch_jars
from orderly.testing.settings import LOGBACK

SOURCES = CHECKOUT / "benchmarks" / "java"


@contextlib.contextmanager
def compiled():
    """Compile them; gives the command line without class and arguments.

    Raises:
        SideFailed: no JDK, or sources that do not compile.
    """
    javac, java = require_jdk()
    class_path = os.pathsep.join(map(str, fetch_jars()))
    with tempfile.TemporaryDirectory(prefix="orderly-peers-") as name:
        command = [javac, "-cp", class_path, "-d", name, *map(str, SOURCES.glob("*.java"))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise SideFailed(done.stderr.strip())
        yield [java, *_quiet(Path(name)), "-cp", os.pathsep.join([name, class_path])]


def require_jdk():
    """The commands (javac, java).

    Raises:
        SideFailed: they are not on PATH.
    """
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        raise SideFailed("no JDK on PATH (javac and java)")
    return javac, java


def _quiet(folder):
    # Without settings of its own the client takes the broker's, whose jars are there, too.
    (folder / "rmq.logback.xml").write_text(LOGBACK)
    return [f"-Duser.home={folder}", f"-Dorderly.log={folder / 'client.log'}"]
