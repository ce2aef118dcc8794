"""Completion: what a shell needs, without importing a command to complete its name."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

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


# --- names that a shell would run, from a server that lists what no broker has --------------------

HOSTILE = [
    "$(touch${IFS}hit)", "`touch${IFS}hit`", "a;touch${IFS}hit", "a|touch", "a&touch", "x>hit",
    "~root", "--yes", "-x", "a b", "a\nplain,b", "a\x1b[2J", "*", "{a,b}", "=ls", "a'b", 'a"b',
    "a\\b", "ä", "a" * 256, "",
]  # fmt: skip


@pytest.mark.usefixtures("patient")
def test_no_name_is_offered_that_a_shell_would_not_take_as_it_is(
    completed, orderly_fake, monkeypatch, tmp_path
):
    with orderly_fake._running().changing() as cluster:
        for name in HOSTILE:
            cluster.create_topic(name, 1)
    assert completed("tail ") == TOPICS
    path = tmp_path / "config.toml"
    path.write_text("\n".join(f"[contexts.{json.dumps(name)}]" for name in (*HOSTILE, "prod.eu")))
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    assert completed("context use ") == ["prod.eu"]


class Shell:
    """An interactive bash on a terminal of its own, as somebody has it who uses completion."""

    def __init__(self, folder, namesrv):
        self._main, other = os.openpty()
        scripts = Path(sys.executable).parent
        env = {
            "PATH": f"{scripts}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb",
            "ORDERLY_NAMESRV": namesrv, "ORDERLY_CONFIG": os.devnull, "PS1": "ready> ",
        }  # fmt: skip
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=other, stdout=other, stderr=other,
            cwd=folder, env=env, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.shown = ""

    def types(self, keys):
        os.write(self._main, keys.encode())

    def shows(self, text, within=30.0):
        """Whether a text appears from now on; what was shown before is forgotten."""
        self.shown, ends = "", time.monotonic() + within
        while time.monotonic() < ends and text not in self.shown:
            if select.select([self._main], [], [], 0.1)[0]:
                self.shown += os.read(self._main, 4096).decode(errors="replace")
        return text in self.shown

    def close(self):
        self._bash.kill()
        self._bash.wait()
        os.close(self._main)


@pytest.fixture
def shell(cluster, orderly_fake, tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path / "home", orderly_fake.namesrv)
    with contextlib.closing(shell):
        shell.types('eval "$(orderly completion bash)"; echo in$((4+3))stalled\n')
        assert shell.shows("in7stalled", 60)
        yield shell


def test_a_tab_and_an_enter_run_no_command_of_a_name_server(shell, orderly_fake, tmp_path):
    for topic in TOPICS:
        orderly_fake.delete_topic(topic)
    with orderly_fake._running().changing() as cluster:
        cluster.create_topic(HOSTILE[0], 1)
    for _ in range(20):  # a name may take a second: a busy machine may need more
        shell.types("\x15orderly dlq list shi\t")
        if shell.shows("shipping", 5):
            break
    else:
        pytest.fail(f"nothing is completed: {shell.shown!r}")
    for _ in range(3):
        shell.types("\x15orderly tail \t")
        shell.shows("touch", 3)
        shell.types("\n")
        shell.types("echo en$((4+3))ded\n")
        assert shell.shows("en7ded", 60)
    assert not (tmp_path / "home" / "hit").exists()
