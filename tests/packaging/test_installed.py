"""The wheel in empty environments: what each extra makes possible, and what is told without it.

Only what the lock files pin is installed. The extra `spark` brings 450 MB: what needs it is tried
in the environment of the tests, which has all extras.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import script

pytestmark = pytest.mark.needs("git")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCKS = ("requirements.lock", "requirements-spark.lock")
NOT_MEASURED = 3

# Extra -> the modules that are there only with it, by prefix; "" is the library alone.
NEEDED = {
    "cli": ("orderly.cli.",),
    "monitoring": ("orderly.report.backlog", "orderly.report.charts", "orderly.report.page"),
    "once": ("orderly.once.sql",),
    "redis": ("orderly.once.redis",),
    "otel": ("orderly.telemetry",),
    "testing": ("orderly.testing.pytest_plugin",),
}
ALONE = ("", "cli", "embedded", "demo", "monitoring", "testing", "native", "otel", "otlp", "once",
         "redis", "speed")  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    dist = script("dist")
    dist.export(folder / "source")
    dist.build(folder / "source", folder, 0)
    return next((folder / "dist").glob("*.whl"))


class Environment:
    """A virtual environment with the wheel and one extra."""

    def __init__(self, folder, wheel, extra):
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        constraints = [word for lock in LOCKS for word in ("--constraint", ROOT / lock)]
        wanted = f"{wheel}[{extra}]" if extra else wheel
        _uv("venv", "--python", sys.executable, folder)
        _uv("pip", "install", "--python", self.python, *constraints, wanted)

    def run(self, *command):
        """Run a program of the environment, far from this checkout."""
        clean = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.bin.parent,
            env=clean | {"PATH": f"{self.bin}:/usr/bin:/bin", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def failure(self, code):
        """The last line that a failing program leaves on stderr."""
        done = self.run("python", "-c", code)
        assert done.returncode, f"{code} works without its extra"
        return done.stderr.strip().splitlines()[-1]


def _uv(*arguments):
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """extra -> its environment, made when it is first asked for."""
    made = {}

    def get(extra):
        if extra not in made:
            folder = tmp_path_factory.mktemp(f"with-{extra or 'nothing'}")
            made[extra] = Environment(folder / "venv", wheel, extra)
        return made[extra]

    return get


def importable(text):
    """What importing.py printed: the modules that can be imported, and those that cannot."""
    tried = json.loads(text)
    assert len(tried) > 250
    return {name for name in tried if not tried[name]}, {name for name in tried if tried[name]}


def is_spark(name):
    return name.startswith(("orderly.spark.", "orderly.cli.spark"))


@pytest.mark.parametrize("extra", ALONE)
def test_with_an_extra_its_modules_are_there_and_no_others(environment, extra):
    done = environment(extra).run("python", HERE / "importing.py")
    assert done.returncode == 0, done.stderr
    absent = {name for name in importable(done.stdout)[1] if not is_spark(name)}
    others = tuple(prefix for name, each in NEEDED.items() if name != extra for prefix in each)
    assert {name for name in absent if not name.startswith(others)} == set()


def test_with_all_extras_every_module_is_there():
    command = [sys.executable, HERE / "importing.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert importable(done.stdout)[1] == set()


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import orderly.telemetry", "otel"),
        ("from orderly.once import Once", "once"),
        ("from orderly.once import RedisOnce", "redis"),
        ("from orderly.spark.session import get_session", "spark"),
        ("from orderly.spark.source import read", "spark"),
        ("from orderly.spark.sink import write_ordered", "spark"),
        ("from orderly.testing import EmbeddedBroker; EmbeddedBroker().start()", "embedded"),
        ("from orderly.testing import RocketMQContainer; RocketMQContainer().start()", "testing"),
        ("from orderly.cli import main; main()", "cli"),
    ],
)
def test_without_its_extra_an_error_names_it_of_the_very_wheel(environment, wheel, code, extra):
    assert f"pip install '{wheel}[{extra}]'" in environment("").failure(code)


def test_without_the_extra_cli_the_command_says_so(environment, wheel):
    done = environment("").run("orderly", "--help")
    assert done.returncode == NOT_MEASURED
    assert done.stderr.endswith(f"pip install '{wheel}[cli]'\n")


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        ("broker start", "embedded"),
        ("exporter --namesrv 127.0.0.1:1 --otlp", "cli,otlp"),
        ("spark audit orders --namesrv 127.0.0.1:1", "cli,spark"),
        ("spark bundle --out orderly.zip", "cli,spark"),
    ],
)
def test_without_its_extra_a_command_names_it(environment, wheel, arguments, extras):
    done = environment("cli").run("orderly", *arguments.split())
    assert done.returncode == NOT_MEASURED, done.stdout
    assert done.stderr.startswith("error: ")
    assert f"pip install '{wheel}[{extras}]'" in done.stderr


def test_the_pytest_plugin_works_from_the_wheel(environment, tmp_path):
    test = "def test_it(orderly_fake):\n    orderly_fake.create_topic('orders', queues=4)\n"
    (tmp_path / "test_it.py").write_text(test)
    done = environment("testing").run(
        "pytest", "-q", "--orderly-broker=fake", "-W", "error", tmp_path
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_mypy_sees_the_types_of_the_wheel(environment, tmp_path):
    program = HERE / "typed_program.py"
    checked = tmp_path / program.name
    checked.write_text(program.read_text())
    where = ("--python-executable", environment("").python, "--cache-dir", tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-pretty", *where, checked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    found = {int(line) for line in re.findall(r"(?m)^\S+\.py:(\d+): error:", done.stdout)}
    lines = enumerate(program.read_text().splitlines(), 1)
    refused = {number for number, line in lines if line.endswith("# refused")}
    assert found == refused, done.stdout + done.stderr
