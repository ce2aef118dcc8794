"""A cluster that does not answer, and settings that are none: exit code 3, and the same line on
stdout and on stderr: who watches reads stdout, who types the command stderr.

The other mistakes and failures: `golden/backlog.txt`.
"""

import json
import socket
import threading
import time

import pytest

from orderly.cli.root import run
from tests.unit.cli.golden.backlog import world

CHECK = ["backlog", "check", "shipping"]


def failed(capsys, code, said):
    out, err = capsys.readouterr()
    assert code == 3
    assert err.startswith("error: ")
    assert out == f"ORDERLY UNKNOWN - {err.removeprefix('error: ')}"
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert said in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--namesrv", "host:port"], "not a name server address"),
        (["--namespace", "a%b"], "namespace"),
        (["--context", "gone"], "no context 'gone'"),
    ],
)
def test_what_cannot_be_meant(capsys, monkeypatch, args, said):
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    failed(capsys, run([*CHECK, *args]), said)


def test_a_measurement_that_hangs_ends_in_time(capsys):
    released = threading.Event()
    began = time.monotonic()
    with world(lambda: released.wait(60)):
        code = run([*CHECK, "--timeout", "100ms", "--interval", "1h"])
    took = time.monotonic() - began
    released.set()
    failed(capsys, code, "not measured within 1.1 s")
    assert took < 30


def test_nobody_listens(capsys):
    failed(capsys, run([*CHECK, "--namesrv", "127.0.0.1:1"]), "127.0.0.1:1")


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_in_json_and_when_quiet(capsys, quiet):
    code = run([*CHECK, "--namesrv", "127.0.0.1:1", "-o", "json", *quiet])
    out, err = capsys.readouterr()
    told = json.loads(out)
    (reason,) = told["reasons"]
    assert (code, told["verdict"], told["exit_code"], told["figures"]) == (3, "UNKNOWN", 3, [])
    assert err == f"error: {reason['text']}\n"


def test_a_context_of_the_environment_that_is_not_there(capsys, monkeypatch):
    monkeypatch.setenv("ORDERLY_CONTEXT", "gone")
    failed(capsys, run(CHECK), "no context 'gone'")


def test_a_name_server_that_says_nothing(capsys):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        code = run([*CHECK, "--namesrv", address, "--timeout", "300ms"])
        assert time.monotonic() - began < 9, "10 s is the default"
    failed(capsys, code, address)
