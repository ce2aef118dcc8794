"""One holder at a time."""

import subprocess
import sys

import pytest

from orderly.durable_file import hold
from orderly.errors import ConfigError

BUSY = ConfigError("the place is in use; stop the other one")


def test_the_second_is_refused_until_the_first_lets_go(tmp_path):
    path = tmp_path / "lock"
    with hold(path, BUSY), pytest.raises(ConfigError, match="in use") as refusal:
        hold(path, BUSY)
    assert isinstance(refusal.value.__cause__, BlockingIOError)
    hold(path, BUSY).close()


def test_another_process_holds_it_until_it_ends_however_it_ends(tmp_path):
    path = tmp_path / "lock"
    program = (
        "import sys, pathlib; from orderly.durable_file import hold; from orderly.errors import *\n"
        "held = hold(pathlib.Path(sys.argv[1]), ConfigError('busy'))\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="in use"):
            hold(path, BUSY)
        other.kill()
    hold(path, BUSY).close()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="symbolic links"):
        hold(tmp_path / "lock", BUSY)
    assert not (tmp_path / "made").exists()


def test_what_is_no_refusal_stays_what_it_is(tmp_path):
    with pytest.raises(FileNotFoundError):
        hold(tmp_path / "missing" / "lock", BUSY)
