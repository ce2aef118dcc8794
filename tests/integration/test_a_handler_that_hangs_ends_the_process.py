"""on_hang="exit" ends a real process with its own exit code, whatever the handler does or holds."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.consuming import send_numbers

ROOT = Path(__file__).parents[2]
EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h


@pytest.fixture
def ends(orderly_namesrv, orderly_topic, producer, client, group):
    """Run a member whose handler hangs with its first message; returns its standard error."""

    def run(handler):
        topic = orderly_topic(queues=1)
        queue = send_numbers(producer, topic, ["a"], 1)[0].queue
        arguments = (orderly_namesrv, group, topic, handler)
        ended = subprocess.run(
            [sys.executable, "-m", "tests.integration.hanging_member", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == EXIT_CODE, ended.stderr
        assert client.brokers.query_offset(group, queue) in (None, 0), "nothing of it counts"
        return ended.stderr

    return run


def test_a_thread(ends):
    said = ends("sleeps")
    assert said.count("event='handler.hung'") == said.count("event='process.exits'") == 1
    assert "in sleeps" in said
    (exits,) = [line for line in said.splitlines() if "event='process.exits'" in line]
    assert "queue_id=0" in exits
    assert f"exit_code={EXIT_CODE}" in exits


def test_a_thread_that_holds_the_lock_of_the_log(ends):
    assert "process.exits" not in ends("holds_the_logs_lock"), "or this case tests nothing"


def test_a_coroutine_that_blocks_its_loop(ends):
    said = ends("blocks_the_loop")
    assert said.count("event='handler.hung'") == 2, "it was given as long again"
    assert "in blocks_the_loop" in said


def test_a_coroutine_that_ignores_its_cancellation(ends):
    said = ends("ignores_cancellation")
    assert said.index("asked to stop") < said.index("event='process.exits'")
