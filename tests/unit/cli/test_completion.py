"""Completion: what a shell needs, without importing a command to complete its name."""

import subprocess
import sys

import pytest

from orderly.cli.backlog.group import COMMANDS
from orderly.cli.root import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell, capsys):
    assert run(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert f"_ORDERLY_COMPLETE={shell}_complete" in out
    assert "orderly" in out


def complete(line):
    code = (
        "import sys; from orderly.cli.root import run; run([]);"
        "print([n for n in ('orderly.cli.demo', 'orderly.client', 'rich') if n in sys.modules])"
    )
    words = f"orderly {line}"
    env = {
        "_ORDERLY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    *items, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    return [item.partition(",")[2] for item in items]


def test_commands_and_options_are_completed():
    assert complete("ba") == ["backlog"]
    assert complete("backlog ") == list(COMMANDS)
    assert "--warn-age" in complete("backlog check --warn")
    assert complete("backlog ls --sort-by ") == [
        "state", "backlog", "age", "eta", "retention", "in", "out", "lost", "parked", "dead",
    ]  # fmt: skip
