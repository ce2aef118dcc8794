"""`orderly context`: lists, chooses, shows what holds and why; changes nothing else in the file."""

import json
import os
import stat

import pytest

from orderly.cli.context import _write
from orderly.cli.root import run
from orderly.errors import ConfigError

FILE = """# mine
[contexts.staging]
namesrv = "stage:1"  # a comment
[contexts.prod]
namesrv = "prod:1"
"""


@pytest.fixture
def file(monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    return path


@pytest.mark.usefixtures("file")
def test_ls_marks_the_one_that_holds(capsys):
    assert run(["context", "ls", "--context", "prod"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "CONTEXT  CURRENT  NAMESRV  NAMESPACE",
        "prod     *        prod:1   -",
        "staging  -        stage:1  -",
    ]


def test_use_changes_one_line_and_nothing_else(file, capsys):
    file.chmod(0o640)
    assert run(["context", "use", "prod"]) == 0
    assert file.read_text() == 'context = "prod"\n' + FILE
    assert run(["context", "use", "staging"]) == 0
    assert file.read_text() == 'context = "staging"\n' + FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert run(["context", "ls", "--no-headers"]) == 0
    assert "staging  *" in capsys.readouterr().out


def test_use_keeps_a_link_a_link(file, tmp_path, monkeypatch):
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    monkeypatch.setenv("ORDERLY_CONFIG", str(link))
    assert run(["context", "use", "prod"]) == 0
    assert link.is_symlink()
    assert file.read_text().startswith('context = "prod"')


def test_a_context_without_a_name_is_not_used(file, capsys):
    assert run(["context", "use", ""]) == 3
    assert "NAME is empty" in capsys.readouterr().err
    assert file.read_text() == FILE


def test_what_is_no_regular_file_is_not_replaced_by_one(file):
    pipe = file.with_name("pipe")
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="no regular file"):
        _write(pipe, FILE)
    assert pipe.is_fifo()


def test_a_context_that_is_not_there_is_not_used(file, capsys):
    assert run(["context", "use", "gone"]) == 3
    assert "it has: prod, staging" in capsys.readouterr().err
    assert file.read_text() == FILE


@pytest.mark.usefixtures("file")
def test_show_tells_each_value_and_where_it_comes_from(capsys, monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESPACE", "shop")
    args = ["context", "show", "--context", "prod", "--color", "never", "-o", "json"]
    assert run(args) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["context"] == "prod"
    assert found["settings"]["namesrv"] == {"value": "prod:1", "from": "context prod"}
    assert found["settings"]["namespace"] == {"value": "shop", "from": "environment"}
    assert found["settings"]["color"] == {"value": "never", "from": "option"}
    assert found["settings"]["request_timeout"] == {"value": "3.0", "from": "default"}


def test_secrets_are_not_shown(file, capsys, monkeypatch):
    monkeypatch.setattr("orderly.cli.context.secret", lambda name: name == "namesrv")
    for output in ("table", "json", "yaml", "csv"):
        assert run(["context", "show", "--context", "prod", "-o", output]) == 0
        out = capsys.readouterr().out
        assert "prod:1" not in out
        assert "***" in out
