"""`orderly backlog list` at a terminal, and with settings; its answers: `golden/backlog.txt`."""

import pytest

from orderly.cli.root import run
from tests.unit.cli.golden.backlog import JANE, world


@pytest.mark.parametrize("level", ["group", "topic", "queue"])
def test_a_line_of_names_fits_a_terminal(capsys, level):
    with world():
        run(["backlog", "--by", level])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.parametrize(("wanted", "seen"), [("", True), ("hash", False)])
def test_the_settings_can_ask_for_hashed_keys_once_for_all(capsys, monkeypatch, wanted, seen):
    monkeypatch.setenv("ORDERLY_REDACT_KEYS", wanted)
    with world(JANE):
        assert run(["backlog", "describe", "shipping"]) == 0
    assert ("jane" in capsys.readouterr().out) is seen


def test_settings_that_ask_for_another_hash_are_refused(capsys, monkeypatch):
    monkeypatch.setenv("ORDERLY_REDACT_KEYS", "sha1")
    with world(JANE):
        assert run(["backlog", "describe", "shipping"]) == 3
    assert "redact_keys of environment must be 'hash'" in capsys.readouterr().err


def test_colours_come_only_where_they_are_wanted(capsys, monkeypatch):
    def shown(*args):
        with world():
            run(["backlog", *args])
        return capsys.readouterr().out

    assert "\x1b" not in shown()
    assert "\x1b[" in shown("--color", "always")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    out = shown()
    assert "\x1b[" in out
    assert "1,234" in out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown()
