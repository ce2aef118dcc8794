"""The commands' help needs no Spark, and what cannot work is refused before Spark starts."""

import sys

import pytest

from orderly.cli.root import run
from orderly.cli.spark.replay import _selection
from orderly.errors import ConfigError


@pytest.mark.parametrize("job", ["audit", "replay"])
def test_help_tells_its_exit_codes_and_imports_no_pyspark(job, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run(["spark", job, "--help"]) == 0
    assert "Exit codes:\n  0  " in capsys.readouterr().out


def test_a_replay_needs_a_target(capsys):
    assert run(["spark", "replay", "/data/orders"]) == 3
    assert "--into" in capsys.readouterr().err


def test_a_file_of_no_keys_does_not_select_all(tmp_path):
    file = tmp_path / "keys"
    file.write_text("\n\n")
    with pytest.raises(ConfigError, match="names no key"):
        _selection(start="", end="", keys=(), keys_file=file, places="")
    file.write_text("o-1\n\no-2\n")
    chosen = _selection(start="", end="", keys=("o-1",), keys_file=file, places="")
    assert chosen.keys == ("o-1", "o-2")
