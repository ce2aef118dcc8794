"""The bundle for spark-submit: runs where nothing is installed, and has nothing compiled."""

import gc
import io
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from orderly.errors import ConfigError
from orderly.spark import bundling
from orderly.spark.bundling import PACKAGES, SCRIPT, SHIPPED, ZIP, bundle, ship, write_bundle


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
        "import orderly, jinja2, structlog, tenacity;"
        "print(version('rocketmq-orderly'), len(files('orderly.report')"
        ".joinpath('page.html').read_text()) > 100, orderly.__file__)",
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
    packed = bundle(PACKAGES)
    assert packed == bundle(PACKAGES)
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert len(names) == len(set(names))
    assert not [name for name in names if Path(name).suffix in {".so", ".pyd", ".pyc"}]
    assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]


def test_a_package_that_is_missing_is_named_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(bundling, "PACKAGES", ("no-such-package",))
    with pytest.raises(ConfigError, match="no-such-package is not installed"):
        write_bundle(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_a_python_that_is_too_old_is_named_before_anything_is_imported(folder):
    old = "sys.version_info, sys.version = (3, 10, 2, 'final', 0), '3.10.2 (main)'; "
    run = f"import runpy; runpy.run_path({str(folder / SCRIPT)!r})"
    done = python(folder, old + run)
    assert done.returncode == 1
    assert done.stderr.startswith("error: orderly needs Python 3.11 or newer, this is 3.10.2: ")


class Context:
    """What `ship` needs of a SparkContext."""

    def __init__(self, master):
        self.master, self.environment, self.added = master, {"PYTHONPATH": "/theirs"}, []

    def addPyFile(self, path):  # noqa: N802  Spark's
        self.added.append(path)


def test_what_is_shipped_is_enough_to_read_and_is_there_as_long_as_the_application():
    context = Context("spark://10.0.0.5:7077")
    ship(context)
    ship(context)
    (archive,) = context.added
    assert context.environment["PYTHONPATH"] == f"{archive}:/theirs"
    assert Path(archive).read_bytes() == bundle(SHIPPED)
    del context
    gc.collect()
    assert not Path(archive).exists()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*, 3]"])
def test_nothing_is_shipped_where_everything_runs_here(master):
    context = Context(master)
    ship(context)
    assert (context.added, context.environment) == ([], {"PYTHONPATH": "/theirs"})


def test_a_zip_that_spark_was_given_is_all_that_is_needed(folder):
    code = (
        "from orderly.spark.bundling import ship; from types import SimpleNamespace as S;"
        "context = S(master='yarn', environment={}); ship(context);"
        "print(context.environment['PYTHONPATH'])"
    )
    done = python(folder, code)
    assert (done.stdout.strip(), done.stderr) == (str(folder / ZIP), "")
