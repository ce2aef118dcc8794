"""What is built from this checkout: the same bytes each time, complete, and nothing else."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.support.programs import script

pytestmark = pytest.mark.needs("git")

dist, hook = script("dist"), script("long_description")
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT_ADDRESS = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]


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
def description(metadata):
    """The long description, without the code in it."""
    return re.sub(r"^```.*?^```$", "", metadata.get_payload(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def tracked(source):
    files = (path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc")
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
    ours = {name for name in tracked if name.startswith("orderly/")}
    about = "rocketmq_orderly-"
    assert {name for name in wheel.namelist() if not name.startswith(about)} == ours
    assert "orderly/py.typed" in ours


def test_a_platform_wheel_is_built_on_request_with_the_locked_mypy():
    hook = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    assert hook["enable-by-default"] is False, "an install from source needs no compiler"
    pin = re.search(r"^mypy==\S+", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE)
    assert pin[0] in hook["dependencies"]
    assert all((ROOT / f"{each.replace('.', '/')}.py").exists() for each in hook["modules"])


def test_the_source_distribution_is_the_checkout(source, sdist, tracked):
    assert set(sdist) - {"PKG-INFO"} == tracked
    assert sdist["README.md"] == (source / "README.md").read_bytes()


def test_the_metadata_are_whole(metadata):
    assert metadata["Name"] == "rocketmq-orderly"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_the_long_description_has_no_link_that_a_registry_breaks(metadata, description):
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert [link for link in links if "://" not in link and not link.startswith("#")] == []
    assert "](docs/" not in metadata.get_payload()
    assert bool(PROJECT_ADDRESS) == bool(metadata.get_all("Project-URL"))


def test_it_installs_from_the_registry_and_says_nothing_of_a_checkout(metadata, description):
    text = metadata.get_payload()
    assert "$ pip install 'rocketmq-orderly[" in text
    assert "pip install '.[" not in text
    assert "<!-- repository" not in text
    assert "README.zh-CN.md" not in description
    assert "OrderlyConsumer(" in text  # a program is there
    assert re.findall(r"^## .+", description, re.MULTILINE) == re.findall(
        r"^## .+", (ROOT / "README.md").read_text(), re.MULTILINE
    )


LINKED = """\
[a](docs/a.md#b) ![p](docs/p.png) [c](https://example.org) [`d`](#e)
```text
[a](docs/a.md)
```
<!-- repository -->
only here

<!-- /repository -->
pip install '.[cli]'
"""


def test_with_an_address_links_lead_to_the_files_of_the_version():
    text = hook.long_description(LINKED, "https://example.org/o", "1.2", "x")
    assert (
        text
        == """\
[a](https://example.org/o/blob/v1.2/docs/a.md#b) ![p](https://example.org/o/raw/v1.2/docs/p.png) \
[c](https://example.org) [`d`](#e)
```text
[a](docs/a.md)
```
pip install 'x[cli]'
"""
    )
    assert hook.addresses("https://example.org/o")["Repository"] == "https://example.org/o"


def test_without_one_they_are_their_text():
    text = hook.long_description(LINKED, "", "1.2", "x")
    assert text.splitlines()[0] == "a  [c](https://example.org) [`d`](#e)"
    assert hook.addresses("") == {}


# --- what stands in the way is said, with what to do


def test_what_is_not_committed_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(dist, "_git", lambda *arguments: " M README.md")
    assert dist.main(["--output", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert " M README.md" in said
    assert "ARGS=--dirty" in said


def test_what_is_no_clone_is_said_to_be_none(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(dist, "HERE", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for options in ([], ["--dirty"]):
        assert dist.main(["--output", str(tmp_path / "dist"), *options]) == 1
        assert "must be a clone of the repository" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dist.main(["--output", str(tmp_path / "dist")]) == 1
    assert "git is not installed" in capsys.readouterr().err


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
