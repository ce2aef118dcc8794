"""What a site does at its start, with no server started."""

import atexit
import os
import sys
from pathlib import Path

import pytest

from orderly.errors import EmbeddedBrokerError
from orderly.testing import site as site_module
from orderly.testing.site import LocalServer, ServerProcess, Site
from tests.support.waiting import eventually


@pytest.fixture
def at_exit(monkeypatch):
    """What is to be called when the process ends."""
    calls = []
    monkeypatch.setattr(atexit, "register", calls.append)
    monkeypatch.setattr(atexit, "unregister", lambda call: call in calls and calls.remove(call))
    return calls


@pytest.fixture
def site(monkeypatch, at_exit):
    monkeypatch.setattr(site_module, "find_java", Path)
    monkeypatch.setattr(site_module, "fetch_jars", lambda **_: ())
    site = Site()
    yield site
    site.stop()
    assert at_exit == []


def test_what_is_started_at_the_second_try_is_ended_with_the_process_too(site, at_exit):
    """The first one found that somebody had taken its ports."""
    directories = []

    def build():
        directories.append(site.directory)
        if len(directories) == 1:
            raise EmbeddedBrokerError("Address already in use")

    site.start(build, ours=True)
    assert at_exit == [site.stop]
    assert [folder.exists() for folder in directories] == [False, True]


def test_a_failed_start_leaves_nothing(site, at_exit):
    directories = []

    def build():
        directories.append(site.directory)
        raise EmbeddedBrokerError("no memory")

    with pytest.raises(EmbeddedBrokerError, match="no memory"):
        site.start(build, ours=True)
    assert at_exit == []
    assert [folder.exists() for folder in directories] == [False]


# --- a server that ends at its start --------------------------------------------------------------

INTERFACES = (
    "\tat org.apache.rocketmq.common.utils.NetworkUtil.normalizeHostAddress(NetworkUtil.java)"
)


@pytest.fixture
def serve(tmp_path):
    """Makes a server that ends with a text at its first `ends` starts, and then runs."""
    starts, servers = tmp_path / "starts", []
    program = (
        "import pathlib, sys, time; starts = pathlib.Path(sys.argv[1]); starts.open('a').write('.')"
        "\nif starts.stat().st_size <= int(sys.argv[2]): sys.exit(sys.argv[3])"
        "\ntime.sleep(600)"
    )

    def make(text, ends):
        command = [sys.executable, "-c", program, str(starts), str(ends), text]
        servers.append(LocalServer("broker", lambda _: command, (), tmp_path, tmp_path / "log"))
        return servers[-1]

    yield make
    for server in servers:
        server.process.kill()


@pytest.mark.parametrize("ends", [1, 4])
def test_one_that_ended_because_an_interface_went_is_started_again(serve, tmp_path, ends):
    """A container that ends takes its network interface along."""
    server = serve(INTERFACES, ends)
    starts = tmp_path / "starts"
    eventually(lambda: server.problem() or (starts.exists() and starts.stat().st_size > ends))
    assert server.problem() is None
    assert server.process.alive


@pytest.mark.parametrize("text", ["no such disk", INTERFACES], ids=["another reason", "at its end"])
def test_one_that_ends_again_and_again_is_given_up(serve, tmp_path, text):
    server = serve(text, 100)
    assert eventually(server.problem) == "broker ended at its start"
    assert (tmp_path / "starts").stat().st_size == (5 if text == INTERFACES else 1)


def test_what_the_machine_lacks_is_named(serve):
    """RocksDB's library is in C++, and a small container has no runtime of it."""
    server = serve("at org.rocksdb.NativeLibraryLoader.loadLibrary", 100)
    assert "libstdc++6" in eventually(server.problem)


# --- a server's process -------------------------------------------------------------------------

BUSY = """
import os, threading
os.nice(19)
for _ in range(20):
    threading.Thread(target=lambda: [sum(range(99)) for _ in iter(int, 1)], daemon=True).start()
print("busy", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def busy(tmp_path):
    """A process whose threads all want to run, on a machine that would rather run others."""
    log = tmp_path / "log"
    process = ServerProcess("busy one", [sys.executable, "-c", BUSY], log, os.environ)
    eventually(lambda: "busy" in process.tail())
    yield process
    process.kill()


def states(pid):
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


@pytest.mark.skipif(sys.platform != "linux", reason="only there is /proc")
def test_a_process_that_is_paused_runs_no_more_until_it_is_resumed(busy):
    for _ in range(20):
        busy.pause()
        assert states(busy.pid) == {"T"}
        busy.resume()
        eventually(lambda: "T" not in states(busy.pid))


def test_to_pause_one_that_has_ended_is_no_error(busy):
    busy.kill()
    busy.pause()
