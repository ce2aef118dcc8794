"""What `orderly broker start` writes down, and what it does about a broker that runs already."""

import json
import os
import socket

import pytest

from orderly.cli.root import run
from orderly.testing import daemon_state
from orderly.testing.daemon import ports_to_use
from orderly.testing.daemon_state import Daemon, birth_of, find, forget, last_ports, write
from orderly.testing.ports import free_port


@pytest.fixture(autouse=True)
def _own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("ORDERLY_CACHE", str(tmp_path))


def running(namesrv=20001, broker=20011, **properties):
    """Write down that this very process is the daemon."""
    daemon = Daemon(
        pid=os.getpid(),
        birth=birth_of(os.getpid()),
        namesrv=f"127.0.0.1:{namesrv}",
        broker=f"127.0.0.1:{broker}",
        directory="/somewhere",
        started_at="2026-01-01T00:00:00Z",
        properties=properties,
    )
    write(daemon)
    return daemon


def test_what_is_written_is_found():
    assert find() is None
    daemon = running(flushDiskType="SYNC_FLUSH")
    assert find() == daemon
    forget()
    assert find() is None


def test_a_state_file_of_an_older_version_is_read():
    running()
    state = json.loads(daemon_state.state_file().read_text())
    del state["properties"]
    daemon_state.state_file().write_text(json.dumps(state))
    assert find().properties == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"namesrv": null, "broker": 1}'])
def test_no_last_ports(tmp_path, text):
    assert last_ports() == (0, 0)
    (tmp_path / "broker-ports.json").write_text(text)
    assert last_ports() == (0, 0)


def test_the_last_ports_are_used_again_when_they_are_free():
    namesrv, broker = free_port(), free_port(-2, 1)
    assert ports_to_use() == (0, 0)
    running(namesrv, broker)
    forget()
    assert ports_to_use() == (namesrv, broker)
    chosen = free_port()
    assert ports_to_use(chosen) == (chosen, broker)
    assert ports_to_use(broker + 1) == (broker + 1, 0), "the user's choice wins"


@pytest.mark.parametrize("neighbour", [0, -2, 1])
def test_a_last_port_that_is_taken_is_not_insisted_on(neighbour):
    namesrv, broker = free_port(), free_port(-2, 1)
    running(namesrv, broker)
    with socket.create_server(("127.0.0.1", broker + neighbour)):
        assert ports_to_use() == (namesrv, 0)
    with socket.create_server(("127.0.0.1", namesrv)):
        assert ports_to_use() == (0, broker)


SAME = ["--port", "20001", "--directory", "/somewhere", "--property", "a=1"]


@pytest.mark.parametrize("options", [[], SAME, SAME[:2], ["--property", "b=2"]])
def test_a_broker_that_runs_with_these_options_is_left_alone(capsys, options):
    running(a="1", b="2")
    assert run(["broker", "start", *options]) == 0
    assert "runs already" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [["--port", "1"], ["--port", "2001"], ["--directory", "/other"],
     ["--property", "a=2"], ["--property", "c=1"]],
    ids=" ".join,
)  # fmt: skip
def test_options_that_the_running_broker_does_not_have_are_an_error(capsys, options):
    running(a="1")
    assert run(["broker", "start", *options]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert " ".join(options) in err
    assert "orderly broker stop" in err
