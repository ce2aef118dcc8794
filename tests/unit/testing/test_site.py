"""What a site does at its start, with no server started."""

import atexit
import os
import sys
from pathlib import Path

import pytest

from orderly.errors import EmbeddedBrokerError
from orderly.testing import site as site_module
from orderly.testing.site import ServerProcess, Site
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
