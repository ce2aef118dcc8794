"""Programs that a test needs beside Python and make, and that a machine may lack.

A test says which: `pytestmark = pytest.mark.needs("redis-server")`. Where the program is missing,
the test is not collected, and the end of the run names the program and its package. In CI the test
is collected, and fails.
"""

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from orderly.errors import ConfigError
from orderly.spark.session import check_java

POSTGRES_FOLDERS = "/usr/lib/postgresql"  # where Debian has them; not on the PATH
NO_SUCH_PLACE = "ORDERLY_TEST_BARE"  # set: only the PATH counts


@dataclass(frozen=True)
class Program:
    """`package` is Debian's; any of the `commands` will do, or all, if `every` is set."""

    package: str
    commands: tuple[str, ...]
    every: bool = False


PROGRAMS = {
    "redis-server": Program("redis-server", ("redis-server",)),
    "postgresql": Program("postgresql", ("initdb",)),
    "promtool": Program("prometheus", ("promtool",)),
    "chromium": Program("chromium", ("chromium", "chromium-browser", "google-chrome")),
    "openssl": Program("openssl", ("openssl",)),
    "cc": Program("gcc libc6-dev", ("cc",)),
    "jdk": Program("openjdk-17-jdk-headless", ("javac", "java"), every=True),
    "java 17": Program("openjdk-17-jre-headless", ("java",)),  # Spark's; a broker's is a wheel
    "git": Program("git", ("git",)),
    "go": Program("golang-go", ("go",)),
}


BY_FIXTURE = {
    "authority": "openssl",
    "java_command": "jdk",
    "spark": "java 17",
    "stub_path": "cc",
    "window": "chromium",
}


def in_ci():
    """Whether what is missing is a failure."""
    return bool(os.environ.get("CI"))


def find(command):
    """Path of a command; None: not installed. Of PostgreSQL's, the newest version there is."""
    found = shutil.which(command)
    if found or NO_SUCH_PLACE in os.environ:
        return found
    versions = Path(POSTGRES_FOLDERS).glob(f"*/bin/{command}")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]))
    return str(newest[-1]) if newest else None


def require(name):
    """Paths of a program's commands that are there; fails the test if it is not installed."""
    program = PROGRAMS[name]
    found = [path for path in map(find, program.commands) if path]
    enough = len(found) == len(program.commands) if program.every else found
    assert enough, f"{name} is not installed: apt-get install {program.package}"
    return found


def is_installed(name):
    try:
        require(name)
        if name == "java 17":
            check_java()
    except (AssertionError, ConfigError):
        return False
    return True


def leave_out(items):
    """Take out of `items` what cannot run on this machine; returns how many tests, by program."""
    if in_ci():
        return Counter()
    there = {name: is_installed(name) for name in PROGRAMS}
    missing = {item: [name for name in needs(item) if not there[name]] for item in items}
    items[:] = [item for item in items if not missing[item]]
    return Counter(names[0] for names in missing.values() if names)


def needs(item):
    """The programs that a test names, or one of its fixtures does."""
    marked = [name for mark in item.iter_markers("needs") for name in mark.args]
    fixtures = getattr(item, "fixturenames", ())
    return [*marked, *(BY_FIXTURE[name] for name in fixtures if name in BY_FIXTURE)]


def param(value, *programs, **kwargs):
    """A parameter of a test that needs them."""
    return pytest.param(value, marks=pytest.mark.needs(*programs), **kwargs)
