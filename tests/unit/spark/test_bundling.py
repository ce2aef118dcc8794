"""The bundle for spark-submit: runs where nothing is installed, and has nothing compiled."""

import io
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from orderly.errors import ConfigError
from orderly.spark import bundling
from orderly.spark.bundling import SCRIPT, ZIP, bundle, write_bundle


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "dist"
    assert write_bundle(folder) == (folder / ZIP, folder / SCRIPT)
    return folder


def python(folder, code, *args):
    """Run code by an interpreter that sees the zip and no installed package."""
    path = f"import sys; sys.path.insert(0, {str(folder / ZIP)!r}); "
    command = [sys.executable, "-I", "-S", "-c", path + code, *args]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_the_command_runs_from_the_zip_alone(folder):
    script = f"sys.argv[0] = 'x'; import runpy; runpy.run_path({str(folder / SCRIPT)!r})"
    done = python(folder, script, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "audit" in done.stdout


def test_the_zip_knows_its_version_and_has_its_templates(folder):
    done = python(
        folder,
        "from importlib.metadata import version; from importlib.resources import files;"
        "import pyspark_orderly, jinja2, structlog, tenacity;"
        "print(version('rocketmq-orderly'), len(files('orderly.report')"
        ".joinpath('page.html').read_text()) > 100, pyspark_orderly.__file__)",
    )
    assert done.stderr == ""
    assert done.stdout.split()[:2] == [version("rocketmq-orderly"), "True"]
    assert ZIP in done.stdout


def test_without_pyspark_a_job_says_in_one_line_what_is_missing(folder):
    code = "from orderly.cli import main; main('spark')"
    done = python(folder, code, "audit", "orders", "--namesrv", "127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.startswith("error: orderly spark needs ")
    assert done.stderr.count("\n") == 1


def test_nothing_in_it_is_compiled_and_equal_sources_give_equal_bytes():
    packed = bundle()
    assert packed == bundle()
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert len(names) == len(set(names))
    assert not [name for name in names if Path(name).suffix in {".so", ".pyd", ".pyc"}]
    assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]


def test_a_package_that_is_missing_is_named_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(bundling, "PACKAGES", ("no-such-package",))
    with pytest.raises(ConfigError, match="no-such-package is not installed"):
        write_bundle(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()
