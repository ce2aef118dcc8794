"""Java programs in tests: compiled by the JDK of the machine against the embedded broker's jars."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orderly.testing.jars import fetch_jars

MOST_SECONDS = 120
SMALL = ("-Xmx128m", "-XX:TieredStopAtLevel=1")
"""Options of `java` for a program that runs briefly beside other tests."""

# Without one of its own, the client takes the broker's logging set-up from the class path: that
# writes to the standard output and to files in the home folder.
SILENT_LOGGING = """<configuration>
  <statusListener class="org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener"/>
</configuration>
"""


def require_jdk() -> tuple[str, str]:
    """Return the commands (javac, java); without them skip the test, or fail it if CI=true."""
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        missing = "no JDK on PATH (javac and java): nothing is compared with Java"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return javac, java


def broker_classpath() -> str:
    """Return the jars of RocketMQ's client and server, joined; downloads those that are missing."""
    return os.pathsep.join(str(jar) for jar in fetch_jars())


def compile_java(source: Path, target: Path) -> None:
    """Compile one file of Java into the folder `target`."""
    javac, _ = require_jdk()
    options = ["-encoding", "UTF-8", "-cp", broker_classpath(), "-d", str(target)]
    _run([javac, *options, str(source)])


def run_java(classes: Path, main: str, given: str = "") -> str:
    """Run the class `main` of the folder `classes`, without logging; returns what it prints.

    Args:
        classes: where `compile_java` put it.
        main: name of the class.
        given: the program's input; input and output are UTF-8.
    """
    _, java = require_jdk()
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
