"""What `orderly broker start` writes down, and what it does about a broker that runs already."""

import json
import os
import socket
import subprocess
import sys

import pytest

from orderly.cli.root import run
from orderly.errors import EmbeddedBrokerError
from orderly.testing import daemon_state
from orderly.testing.daemon import ports_to_use
from orderly.testing.daemon_state import (
    Daemon,
    birth_of,
    find,
    find_all,
    forget,
    home,
    last_ports,
    write,
)
from orderly.testing.ports import free_port
from tests.support.waiting import eventually

command_of = daemon_state.command_of  # the fixture below replaces it


@pytest.fixture(autouse=True)
def _own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("ORDERLY_CACHE", str(tmp_path))
    monkeypatch.setattr(daemon_state, "command_of", lambda _: "orderly broker start --foreground")


def running(namesrv=20001, broker=20011, name="default", started_in="/home/a/shop", **properties):
    """Write down that this very process is the daemon."""
    daemon = Daemon(
        pid=os.getpid(),
        birth=birth_of(os.getpid()),
        namesrv=f"127.0.0.1:{namesrv}",
        broker=f"127.0.0.1:{broker}",
        directory="/somewhere",
        started_at="2026-01-01T00:00:00Z",
        properties=properties,
        name=name,
        started_in=started_in,
    )
    home(name).mkdir(parents=True, exist_ok=True)
    write(daemon)
    return daemon


def test_what_is_written_is_found():
    assert find() is None
    daemon = running(flushDiskType="SYNC_FLUSH")
    assert find() == daemon
    forget("default")
    assert find() is None


def test_a_state_file_of_an_older_version_is_read():
    running()
    state = json.loads(daemon_state.state_file("default").read_text())
    for added in ("properties", "name", "started_in"):
        del state[added]
    daemon_state.state_file("default").write_text(json.dumps(state))
    assert find().properties == {}


@pytest.mark.parametrize(
    "change",
    [
        {"pid": -1, "birth": None},
        {"pid": 0, "birth": None},
        {"pid": 1},
        {"pid": True, "birth": None},
        {"pid": 2**40, "birth": None},
        {"pid": 2**40, "birth": ""},
        {"pid": "4711"},
        {"birth": 7},
        {"namesrv": ["127.0.0.1:1"]},
        {"directory": None},
        {"properties": []},
        {"more": 1},
    ],
    ids=str,
)
def test_a_state_that_no_broker_wrote_is_none_and_nobody_gets_a_signal(change, capsys, monkeypatch):
    running()
    kills = []
    monkeypatch.setattr(os, "kill", lambda *args: kills.append(args))
    path = daemon_state.state_file("default")
    state = json.loads(path.read_text())
    if change.get("pid") == 1:
        change = change | {"birth": birth_of(1)}
    path.write_text(json.dumps(state | change))
    assert find() is None
    assert run(["broker", "stop"]) == 0
    assert kills == []
    assert "no broker 'default' runs" in capsys.readouterr().out


def test_another_program_of_that_number_is_no_broker(monkeypatch):
    running()
    monkeypatch.setattr(daemon_state, "command_of", command_of)
    assert find() is None, "this is pytest"


def test_a_state_of_another_users_is_none(monkeypatch):
    running()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert find() is None


def test_the_command_line_of_a_process_is_told():
    with subprocess.Popen([sys.executable, "-c", "input()", "a b"], stdin=subprocess.PIPE) as other:
        try:
            eventually(lambda: command_of(other.pid).endswith(" -c input() a b "))
        finally:
            other.kill()
    assert command_of(other.pid) == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"namesrv": null, "broker": 1}'])
def test_no_last_ports(text):
    assert last_ports("default") == (0, 0)
    home("default").mkdir(parents=True)
    (home("default") / "ports.json").write_text(text)
    assert last_ports("default") == (0, 0)


def test_the_last_ports_are_used_again_when_they_are_free():
    namesrv, broker = free_port(), free_port(-2, 1)
    assert ports_to_use("default") == (0, 0)
    running(namesrv, broker)
    forget("default")
    assert ports_to_use("default") == (namesrv, broker)
    chosen = free_port()
    assert ports_to_use("default", chosen) == (chosen, broker)
    assert ports_to_use("default", broker + 1) == (broker + 1, 0), "the user's choice wins"


@pytest.mark.parametrize("neighbour", [0, -2, 1])
def test_a_last_port_that_is_taken_is_not_insisted_on(neighbour):
    namesrv, broker = free_port(), free_port(-2, 1)
    running(namesrv, broker)
    with socket.create_server(("127.0.0.1", broker + neighbour)):
        assert ports_to_use("default") == (namesrv, 0)
    with socket.create_server(("127.0.0.1", namesrv)):
        assert ports_to_use("default") == (0, broker)


SAME = ["--port", "20001", "--directory", "/somewhere", "--conf", "a=1"]


@pytest.mark.parametrize("options", [[], SAME, SAME[:2], ["--conf", "b=2"]])
def test_a_broker_that_runs_with_these_options_is_left_alone(capsys, options):
    running(a="1", b="2")
    assert run(["broker", "start", *options]) == 0
    assert "already runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [["--port", "1"], ["--port", "2001"], ["--directory", "/other"],
     ["--conf", "a=2"], ["--conf", "c=1"]],
    ids=" ".join,
)  # fmt: skip
def test_options_that_the_running_broker_does_not_have_are_an_error(capsys, options):
    running(a="1")
    assert run(["broker", "start", *options]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert " ".join(options) in err
    assert "orderly broker stop" in err


# --- several, each of a name


def test_each_name_has_its_own_state_and_ports():
    shop, other = running(name="shop"), running(20002, 20021, name="other")
    assert (find("shop"), find("other"), find()) == (shop, other, None)
    assert [each.name for each in find_all()] == ["other", "shop"]
    forget("shop")
    assert list(find_all()) == [other]
    assert last_ports("shop") == (20001, 20011)
    assert not home("default").exists()


def test_another_checkout_is_told_whose_broker_it_found(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    running(started_in="/home/a/shop")
    assert run(["broker", "start", "--port", "20001"]) == 0
    out = capsys.readouterr().out
    assert "already runs: default" in out
    assert "started in /home/a/shop" in out
    assert "--name NAME" in out
    running(started_in=str(tmp_path))
    assert run(["broker", "start", "--port", "20001"]) == 0
    assert "started in" not in capsys.readouterr().out


def test_a_port_of_a_broker_of_another_name_is_said_to_be_its():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedBrokerError, match="taken by another program"):
            ports_to_use("mine", port)
        running(port, name="shop", started_in="/home/a/shop")
        with pytest.raises(EmbeddedBrokerError, match=r"'shop', started in /home/a/shop.*--port"):
            ports_to_use("mine", port)


@pytest.mark.parametrize("command", ["status", "stop"])
def test_that_none_of_a_name_runs_is_said_with_those_that_do(capsys, command):
    running(name="shop")
    run(["broker", command, "--name", "other"])
    said = "no broker 'other' runs; there is shop (127.0.0.1:20001); `orderly broker start --name"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a" * 41])
def test_what_is_no_name(capsys, name):
    assert run(["broker", "status", "--name", name]) == 3
    assert "letters" in capsys.readouterr().err
