"""`orderly doctor`: what is there, what is not, and what is broken."""

import json
import tomllib
from ctypes.util import find_library
from pathlib import Path

import pytest

from orderly.cli import doctor as doctor_module
from orderly.cli.root import run

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture
def parts(capsys, monkeypatch):
    """Run it with a librocketmq at a path, or none; returns the exit code and the parts by name."""

    def call(path=None):
        monkeypatch.setattr("orderly.native.library.find_library", lambda: path)
        code = run(["doctor", "-o", "json"])
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "orderly.doctor/v1"
        return code, {part["part"]: part for part in document["parts"]}

    return call


def test_without_librocketmq_nothing_is_broken_and_it_says_how_to_get_it(parts):
    code, found = parts()
    assert (code, found["librocketmq"]["state"]) == (0, "ABSENT")
    assert "apache/rocketmq-client-cpp" in found["librocketmq"]["advice"]
    assert "ORDERLY_LIBROCKETMQ" in found["librocketmq"]["advice"]
    assert found["orderly"]["state"] == found["python"]["state"] == found["cli"]["state"] == "OK"


@pytest.mark.parametrize(
    ("path", "why"),
    [("/no/such/librocketmq.so", "cannot be loaded"), (find_library("c"), "lacks CreateMessage")],
)
def test_one_that_cannot_be_used_is_broken(parts, path, why):
    code, found = parts(path)
    assert (code, found["librocketmq"]["state"], found["librocketmq"]["found"]) == (
        1, "BROKEN", path,
    )  # fmt: skip
    assert why in found["librocketmq"]["advice"]


def test_an_extra_that_is_not_there_is_absent_with_its_command(parts, monkeypatch):
    monkeypatch.setattr(doctor_module, "find_spec", lambda name: None if name == "lz4" else name)
    code, found = parts()
    assert (code, found["speed"]["state"], found["redis"]["state"]) == (0, "ABSENT", "OK")
    assert found["speed"]["advice"] == "pip install 'rocketmq-orderly[speed]' (it lacks lz4)"


def test_it_knows_every_extra():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(doctor_module._EXTRAS) == set(extras) - {"all", "native"}


def test_for_a_reader_it_is_a_table(capsys):
    assert run(["doctor"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["PART", "STATE", "FOUND"]
    assert lines[-1].startswith("librocketmq")
