"""Completion: what a shell needs, without importing a command to complete its name."""

import os
import subprocess
import sys
import threading

import pytest

from orderly.cli.backlog import COMMANDS
from orderly.cli.root import run
from orderly.cli.selection import _within
from tests.support.brokers import set_group
from tests.support.waiting import patient_client


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
        "ORDERLY_CONFIG": os.devnull,  # not the settings of whoever runs this
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
    assert complete("backlog list --sort-by ") == [
        "state", "backlog", "age", "eta", "retention", "in", "out", "lost", "parked", "dead",
    ]  # fmt: skip


@pytest.fixture
def completed(capfd, monkeypatch):
    """What a shell is offered for a line, in this process; nothing may be said beside it."""

    def call(line):
        monkeypatch.setenv("_ORDERLY_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", f"orderly {line}")
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" "))))
        assert run([]) == 0
        out, err = capfd.readouterr()
        assert err == ""
        return [item.partition(",")[2] for item in out.splitlines() if item]

    return call


@pytest.fixture
def cluster(orderly_fake, monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", orderly_fake.namesrv)
    for topic in ("orders", "payments", "shop%orders"):
        orderly_fake.create_topic(topic, 1)
    with patient_client(orderly_fake.namesrv) as client:
        for group in ("shipping", "billing", "shop%selling"):
            set_group(client, group)


@pytest.fixture
def patient(cluster, monkeypatch):
    """The cluster, which may take its time: a second is little on a busy machine."""
    monkeypatch.setattr("orderly.cli.selection._PATIENCE", 60.0)


TOPICS, GROUPS = ["orders", "payments", "shop%orders"], ["billing", "shipping", "shop%selling"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tail ", TOPICS),
        ("send pay", ["payments"]),
        ("topic show o", ["orders"]),
        ("topic grow ", TOPICS),
        ("offsets reset shipping ", TOPICS),
        ("dlq replay shipping --into o", ["orders"]),
        ("doctor -t ", TOPICS),
        ("spark replay dir --into ", TOPICS),
        ("--namespace shop tail ", ["orders"]),
        ("parked release ", GROUPS),
        ("parked list ship", ["shipping"]),
        ("--namespace shop parked list ", ["selling"]),
        ("dlq list ", GROUPS),
        ("backlog describe b", ["billing"]),
        ("offsets show --group ", GROUPS),
        ("doctor -g ", GROUPS),
        ("topic create ", []),
    ],
)
def test_topics_and_groups_are_completed(completed, line, offered):
    assert completed(line) == offered


@pytest.mark.parametrize("line", ["context use ", "--context ", "backlog list --context "])
def test_contexts_are_completed(completed, monkeypatch, tmp_path, line):
    path = tmp_path / "config.toml"
    path.write_text('[contexts.prod]\nnamesrv = "a:1"\n[contexts.staging]\nnamesrv = "b:1"\n')
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    assert completed(line) == ["prod", "staging"]


@pytest.mark.parametrize("line", ["tail ", "parked list ", "context use "])
@pytest.mark.parametrize("config", ["namesrv = [", "namesrv = 7", 'namesrv = "127.0.0.1:1"'])
def test_where_nothing_can_be_had_nothing_is_said(completed, monkeypatch, tmp_path, line, config):
    path = tmp_path / "config.toml"
    path.write_text(config)
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    assert completed(line) == []


@pytest.mark.usefixtures("cluster")
def test_a_broker_that_hangs_holds_up_the_shell_for_a_second(completed, monkeypatch):
    waited = []
    monkeypatch.setattr(
        "orderly.cli.selection._within", lambda seconds, _ask: waited.append(seconds) or []
    )
    assert completed("parked list ") == []
    assert waited == [1.0]


def test_an_answer_that_does_not_come_is_not_waited_for():
    never = threading.Event()
    assert _within(0.01, lambda: [str(never.wait(30))]) == []
    never.set()
