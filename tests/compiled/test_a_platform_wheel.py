"""A platform wheel does what its sources do, and refuses to run without its compiled part.

Run by `make test-compiled`, whose Python has the wheel, and the checkout behind it. With the
checkout in PYTHONPATH the same Python imports the sources.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path

import pytest

import orderly
from orderly.compiled import COMPILED, LIBRARY, MARKER

ROOT = Path(__file__).parents[2]
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["custom"]
SUFFIX = EXTENSION_SUFFIXES[0]
SEEDS = 3


def run(*command, path=""):
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_module_of_the_list_is_compiled():
    assert COMPILED
    for name in HOOK["modules"]:
        assert isinstance(import_module(name).__spec__.loader, ExtensionFileLoader), name


@pytest.mark.parametrize("seed", range(SEEDS))
def test_it_does_what_its_sources_do(seed):
    """Decoders, lanes, held queues, outbox: random inputs, and all that can be seen of them."""
    program = ("-m", "tests.compiled.transcript", str(seed))
    (first, *wheel), (other, *sources) = run(*program), run(*program, path=ROOT)
    assert (first, other) == ("compiled: True", "compiled: False")
    assert wheel == sources
    assert len(wheel) > 50_000


def test_doctor_says_that_it_is_compiled():
    program = ("-m", "orderly.cli", "doctor")
    (wheel,), (sources,) = (
        [line.split() for line in run(*program, path=path) if "compiled" in line]
        for path in ("", ROOT)
    )
    assert wheel == ["installation", "compiled", "OK", "yes"]
    assert sources == ["installation", "compiled", "OK", "no"]


# --- damaged --------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    """What the wheel installed, in a folder of its own."""
    home = Path(orderly.__file__).parent
    shutil.copytree(home, tmp_path / "orderly")
    shutil.copy(home.parent / f"{LIBRARY}{SUFFIX}", tmp_path)
    return tmp_path


def outcome(folder):
    """The last line of a program that imports from there."""
    program = "import orderly, orderly.model; print(orderly.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout or done.stderr).splitlines()[-1]


def test_as_it_was_installed_it_is_imported(copy):
    assert outcome(copy) == str(copy / "orderly" / "__init__.py")


def test_a_compiled_module_that_is_missing_is_an_error_though_its_source_is_there(copy):
    file = copy / "orderly" / "ordering" / f"lanes{SUFFIX}"
    file.unlink()
    assert file.with_name("lanes.py").exists()
    said = outcome(copy)
    assert said.startswith("ImportError: the compiled part of rocketmq-orderly in ")
    assert f"lacks orderly/ordering/lanes{SUFFIX}" in said
    assert "pip install --force-reinstall --no-binary rocketmq-orderly" in said


def test_a_library_that_cannot_be_loaded_is_an_error(copy):
    (copy / f"{LIBRARY}{SUFFIX}").write_bytes(b"of another system")
    said = outcome(copy)
    assert said.startswith("ImportError: the compiled part of rocketmq-orderly in ")
    assert "cannot be loaded" in said


def test_a_wheel_for_another_python_is_an_error(copy):
    other = ".cpython-399-x86_64-linux-gnu.so"
    marker = copy / "orderly" / MARKER
    for file in marker.read_text().split():
        (copy / file).rename(copy / file.replace(SUFFIX, other))
    marker.write_text(marker.read_text().replace(SUFFIX, other))
    said = outcome(copy)
    assert said.startswith("ImportError: the compiled part of rocketmq-orderly in ")
    assert "or this is another Python" in said


# --- a user who looks for a defect ----------------------------------------------------------------


def test_a_traceback_through_compiled_code_shows_its_lines():
    program = """
import traceback
from orderly.ordering.process_queue import ProcessQueue
try:
    ProcessQueue().put([None])
except Exception:
    print(traceback.format_exc())
"""
    text = "\n".join(run("-c", program))
    assert 'File "orderly/ordering/process_queue.py", line ' in text
    assert "message.queue_offset" in text
