"""What is built from this checkout: the same bytes each time, complete, and nothing else."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes

import pytest

from tests.support.programs import script

dist = script("dist")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The checkout's files, as they are now."""
    folder = tmp_path_factory.mktemp("checkout") / "source"
    dist.export(folder)
    return folder


@pytest.fixture(scope="module")
def twice(source, tmp_path_factory):
    """Two builds: a folder, and the sums of what is in its `dist`."""
    folders = [tmp_path_factory.mktemp("build") for _ in dist.SETTINGS]
    return [(each, dist.build(source, each, number)) for number, each in enumerate(folders)]


@pytest.fixture(scope="module")
def built(twice):
    return sorted((twice[0][0] / "dist").iterdir())


@pytest.fixture(scope="module")
def wheel(built):
    return zipfile.ZipFile(next(path for path in built if path.suffix == ".whl"))


@pytest.fixture(scope="module")
def sdist(built):
    """File in the source distribution -> its bytes."""
    with tarfile.open(next(path for path in built if path.suffix == ".gz")) as archive:
        files = [each for each in archive if each.isfile()]
        return {each.name.partition("/")[2]: archive.extractfile(each).read() for each in files}


@pytest.fixture(scope="module")
def metadata(wheel):
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


@pytest.fixture(scope="module")
def tracked(source):
    files = (path for path in source.rglob("*") if path.is_file())
    return {path.relative_to(source).as_posix() for path in files}


def test_another_place_umask_time_zone_and_hash_seed_give_the_same_bytes(twice):
    (_, first), (_, second) = twice
    assert first == second
    assert len(first) == 2


def test_the_wheel_comes_from_the_source_distribution_and_is_that_of_the_checkout(
    source, twice, tmp_path
):
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", tmp_path, source],
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": dist._committed_at()},
    )
    [direct] = tmp_path.iterdir()
    assert dist.sums_of(tmp_path)[direct.name] == twice[0][1][direct.name]


def test_twine_finds_no_fault(built):
    command = [sys.executable, "-m", "twine", "check", "--strict", *built]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel, tracked):
    ours = {name for name in tracked if name.startswith("orderly/")} | {"pyspark_orderly.py"}
    about = "rocketmq_orderly-"
    assert {name for name in wheel.namelist() if not name.startswith(about)} == ours
    assert "orderly/py.typed" in ours


def test_the_source_distribution_is_the_checkout(source, sdist, tracked):
    assert set(sdist) - {"PKG-INFO"} == tracked
    assert sdist["README.md"] == (source / "README.md").read_bytes()


def test_the_metadata_are_whole(metadata):
    assert metadata["Name"] == "rocketmq-orderly"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_without_extras_two_packages_are_needed(metadata):
    needed = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    assert [each.partition(">")[0] for each in sorted(needed)] == ["structlog", "tenacity"]


def test_the_commands_and_the_plugin_are_registered(wheel):
    name = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    lines = [line for line in wheel.read(name).decode().splitlines() if "=" in line]
    assert lines == [
        "orderly = orderly.cli:main",
        "orderly = orderly.testing.pytest_plugin",
    ]
