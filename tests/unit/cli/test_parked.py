"""`orderly parked` at a terminal, and commands that we print; its answers: `golden/parked.txt`."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from orderly.cli import terminal as progress_module
from orderly.cli.root import run
from orderly.cli.terminal import ProgressLine
from orderly.monitoring.texts import key_command
from tests.unit.cli.golden.parked import REPORT, world


def test_on_a_narrow_terminal_no_key_is_cut(capsys, monkeypatch):
    key = "abcdefghijklmnopqrstuvwxyz0123456789"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    with world(keys=(replace(REPORT, key=key),)):
        assert run(["parked", "list", "shipping"]) == 0
    assert f" {key} " in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["add", "release"])
@pytest.mark.parametrize("key", ["-7", -7, "a b'c", "--all"])
def test_a_command_that_we_print_asks_for_that_key(verb, key):
    with world() as asked:
        assert run(shlex.split(key_command(verb, "shipping", "orders", key))[1:]) == 0
    assert asked == [f"{verb} {key!r} of orders within 60.0 s"]


def test_progress_is_told_once_a_second_at_most(monkeypatch, capsys):
    times = iter([0.0, 0.5, 1.0, 1.5, 2.5])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(times))
    progress = ProgressLine("sent", 9)
    for count in range(1, 5):
        progress.reached(count)
    assert capsys.readouterr().err.splitlines() == ["2 of 9 sent", "4 of 9 sent"]
