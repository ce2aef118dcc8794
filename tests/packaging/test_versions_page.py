"""docs/reference/versions.md says what pyproject.toml, the lock files and the code say."""

import re
import tomllib
from pathlib import Path

import pytest

import orderly.once
import orderly.telemetry
import orderly.testing
from orderly import native
from orderly.consumer import local_offsets
from orderly.protocol import members, park_record, state_record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "versions.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = "".join((ROOT / f"requirements{name}.lock").read_text() for name in ("", "-spark"))


def row(first):
    """The cells of the table row that begins so."""
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_pythons_that_were_tried_are_the_classifiers():
    named = "Programming Language :: Python :: 3."
    classified = {each[len(named) - 2 :] for each in PROJECT["classifiers"] if named in each}
    tried, required = row("CPython")
    assert set(tried.split(", ")) == classified
    assert f">={required.removesuffix(' or newer')}" == PROJECT["requires-python"]


def test_the_broker_is_the_one_that_tests_download():
    jars = (ROOT / "orderly" / "testing" / "jars.txt").read_text()
    assert f"/rocketmq-broker-{row('RocketMQ')[0]}.jar" in jars


@pytest.mark.parametrize(
    ("first", "packages"),
    [
        ("PySpark", ["pyspark"]),
        ("pandas, pyarrow", ["pandas", "pyarrow"]),
        ("SQLAlchemy", ["sqlalchemy"]),
    ],
)
def test_packages_that_were_tried_are_those_of_the_locks(first, packages):
    tried = row(first)[0].split(", ")
    for package, version in zip(packages, tried, strict=True):
        assert re.search(rf"^{package}=={re.escape(version)}\.", LOCKED, re.MULTILINE)


@pytest.mark.parametrize(
    ("first", "version"),
    [
        ("state records of a queue", state_record.VERSION),
        ("parked messages, releases, commands", park_record.PARK_VERSION),
        ("what members report about a queue", members.VERSION),
        ("offsets of a broadcasting member", local_offsets._VERSION),
    ],
)
def test_formats_have_the_numbers_of_the_code(first, version):
    assert row(first)[1] == str(version)


@pytest.mark.parametrize(
    "package",
    [orderly, orderly.once, orderly.telemetry, orderly.testing, native],
    ids=lambda it: it.__name__,
)
def test_packages_that_are_called_the_interface_say_what_is(package):
    assert f"`{package.__name__}" in row("Python")[0]
    assert package.__all__
