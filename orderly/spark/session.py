"""A SparkSession that can use this library: Java found, Python the same, the format known.

Where a session exists already (a notebook), it is used as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import orderly.spark.extra  # noqa: F401  first: it says what is missing

# isort: split
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from orderly.config.arguments import check_given, check_named_texts, check_text
from orderly.errors import ConfigError
from orderly.spark.data_source import register

JAVA_NEEDED = 17
DEFAULT_MASTER = "local[*]"


def get_session(
    name: str = "orderly", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session, or start one; the format "rocketmq" is registered with it.

    Local workers use this interpreter unless PYSPARK_PYTHON names another. Spark itself would take
    the first `python3` of the PATH, which lacks the packages of a virtual environment. On a cluster
    PYSPARK_PYTHON names the executors' Python.

    Args:
        name: of the application.
        master: Spark's master; None: that of spark-submit or SPARK_MASTER, else "local[*]".
        settings: Spark settings by name; they win over those that this function sets.

    Raises:
        ConfigError: an argument of another kind; or this process must start Java, and there is
            no Java 17 or newer.
    """
    check_text("name", name, empty=False)
    check_given("master", master, str, "a text")
    check_named_texts("settings", settings)
    session = _running() or _started(name, master or _master_unless_submitted(), settings or {})
    register(session)
    return session


def _running() -> SparkSession | None:
    with contextlib.suppress(PySparkRuntimeError):  # no session, not even of another thread
        return SparkSession.active()
    return None


def _started(name: str, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    local = (master or "").startswith("local")
    if not _submitted():  # else the JVM runs
        check_java()
        if local:  # else executors have a Python of their own
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master:
        builder = builder.master(master)
    for key, value in {**_SETTINGS, **(_LOCAL if local else {}), **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # what others read, too
    # Without it Spark refuses a source that takes filters, and ours takes them on request.
    "spark.sql.python.filterPushdown.enabled": "true",
}

_LOCAL = {
    # Spark's default of 200 is for clusters: here most of a small job would be tasks without a row.
    "spark.sql.shuffle.partitions": str(max(8, 2 * (os.cpu_count() or 1))),
    # Not over TCP on loopback: rows cross for an eighth less CPU, and nobody else can connect.
    "spark.python.unix.domain.socket.enabled": "true",
}


def _master_unless_submitted() -> str | None:
    return None if _submitted() else os.environ.get("SPARK_MASTER", DEFAULT_MASTER)


def _submitted() -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_java() -> Path:
    """Find the Java that Spark will start.

    Raises:
        ConfigError: no Java, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise ConfigError(
            f"Spark needs Java {JAVA_NEEDED} or newer and none was found: install one (Debian:"
            " apt install openjdk-17-jre-headless) or set JAVA_HOME; the JRE that comes with"
            " orderly's embedded broker lacks a module that Spark needs"
        )
    version = java_version(found)
    if version is not None and version < JAVA_NEEDED:
        raise ConfigError(
            f"Spark needs Java {JAVA_NEEDED} or newer; {found} is Java {version}: install a newer"
            " one and let JAVA_HOME point to it"
        )
    return Path(found)


def java_version(java: str) -> int | None:
    """The major version, by the file beside it or by `java -version`; None if it cannot be read."""
    with contextlib.suppress(OSError):  # a JVM less to start
        release = Path(java).resolve().parents[1].joinpath("release").read_text("utf-8", "replace")
        if found := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE):
            return int(found[1])
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)  # noqa: S603, PLW1510  the user's Java
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None
