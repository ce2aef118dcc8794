"""A Spark without what the source is built on: one sentence, from the API and from commands."""

import subprocess
import sys

import pytest

from orderly.errors import ConfigError
from orderly.spark.extra import check_version
from tests.docs.pages import ROOT

TOLD = "orderly.spark needs PySpark 4.2 or newer, but this is 3.5.1: install a newer Spark"


@pytest.mark.parametrize("version", ["4.2.0", "4.2.0.dev1", "4.10.0", "5.0"])
def test_new_enough(version):
    check_version(version)


@pytest.mark.parametrize("version", ["4.1.1", "4.0.0.dev2", "3.5.1"])
def test_too_old(version):
    with pytest.raises(ConfigError, match=f"but this is {version}"):
        check_version(version)


@pytest.fixture
def old_spark(tmp_path):
    """Runs Python where PySpark is an old one: as much of it as is looked at."""
    package = tmp_path / "pyspark" / "sql"
    package.mkdir(parents=True)
    package.parent.joinpath("__init__.py").write_text("__version__ = '3.5.1'")
    package.joinpath("__init__.py").write_text("class SparkSession: pass")

    def run(*args):
        path = f"{tmp_path}:{ROOT}"
        command = [sys.executable, "-c", *args]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    "line",
    [
        "from orderly.spark.source import register",
        "from orderly.spark.session import get_session",
        "from orderly.spark.sink import write_ordered",
    ],
)
def test_the_api_says_so_in_its_last_line(old_spark, line):
    done = old_spark(line)
    assert done.stderr.splitlines()[-1].startswith(f"orderly.errors.ConfigError: {TOLD}")


def test_a_command_says_so_in_one_line(old_spark):
    code = "from orderly.cli import main; main('spark')"
    done = old_spark(code, "audit", "orders", "--namesrv", "127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: {TOLD}")
    assert done.stderr.count("\n") == 1
