"""`orderly context use` of files that are links or pipes; its answers: `golden/context.txt`."""

import os

import pytest

from orderly.cli.context import _write
from orderly.cli.root import run
from orderly.errors import ConfigError

FILE = """[contexts.prod]
namesrv = "prod:1"
"""


def test_use_keeps_a_link_a_link(tmp_path, monkeypatch):
    file, link = tmp_path / "config.toml", tmp_path / "link.toml"
    file.write_text(FILE)
    link.symlink_to(file)
    monkeypatch.setenv("ORDERLY_CONFIG", str(link))
    assert run(["context", "use", "prod"]) == 0
    assert link.is_symlink()
    assert file.read_text().startswith('context = "prod"')


def test_what_is_no_regular_file_is_not_replaced_by_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="not a regular file"):
        _write(pipe, FILE)
    assert pipe.is_fifo()
