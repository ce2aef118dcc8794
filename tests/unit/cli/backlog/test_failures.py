"""Whatever cannot be measured is exit code 3 and one line on stderr, never 0, 1 or 2."""

import socket
import threading
import time

import pytest

from orderly.cli.root import run
from orderly.errors import (
    BrokerError,
    NameServerUnavailable,
    NoPermission,
    ProtocolError,
    RequestTimeout,
)
from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.states import QueueState
from tests.support.snapshots import group, row, snapshot

REFUSED = BrokerReading("broker-a", error="no permission\x1b[31m for code 43 (16)")
SILENT = BrokerReading("broker-a", error="nothing listens at 10.0.0.1:10911")
WELL = BrokerReading("broker-b")
CHECK = ["backlog", "check", "-g", "shipping"]


def failed(capsys, code, said):
    out, err = capsys.readouterr()
    assert code == 3
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert said in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["backlog", "check"], "give --group"),
        ([*CHECK, "--warn", "many"], "'many' is no range"),
        ([*CHECK, "--warn", "10:5"], "swap them"),
        ([*CHECK, "--crit-age", "5 minutes"], "durations"),
        ([*CHECK, "--warn", "9", "--crit", "1"], "never be reached"),
        ([*CHECK, "--no-such-flag"], "no such option"),
        ([*CHECK, "--timeout", "soon"], "no duration"),
        ([*CHECK, "--timeout", "0"], "too short"),
        ([*CHECK, "--samples", "0"], "--samples"),
        ([*CHECK, "-o", "xml"], "xml"),
        ([*CHECK, "--namesrv", "host:port"], "not a name server address"),
        ([*CHECK, "--namespace", "a%b"], "namespace"),
        ([*CHECK, "--context", "gone"], "no context 'gone'"),
        (["backlog", "check", "-g", "not a name"], "group name"),
        (["backlog", "check", "-r", "-g", "("], "regular expression"),
        (["backlog", "ls", "--sort-by", "luck"], "luck"),
        (["backlog", "ls", "--top", "0"], "--top"),
        (["backlog", "describe"], "which GROUP"),
        (["backlog", "watch", "--interval", "0"], "too short"),
        (["backlog", "chekc", "-g", "shipping"], "no such command"),
    ],
)
def test_what_cannot_be_meant(capsys, monkeypatch, args, said):
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    failed(capsys, run(args), said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NameServerUnavailable("no name server answered"), "no name server"),
        (RequestTimeout("no reply within 3 s"), "no reply"),
        (NoPermission("not allowed\nhere", code=16), "not allowed"),
        (BrokerError("code 1: system error\x1b[2J", code=1), "system error"),
        (ProtocolError("not such an answer"), "not such"),
        (ZeroDivisionError("oops"), "this is a bug"),
        (TimeoutError(), "this is a bug"),  # an OSError, but no file's
    ],
)
@pytest.mark.parametrize("command", [CHECK, ["backlog"], ["backlog", "explain"]])
def test_what_cannot_be_measured(surveyed, capsys, command, error, said):
    surveyed.found = error
    failed(capsys, run(command), said)


@pytest.mark.parametrize(
    ("found", "args", "said"),
    [
        (snapshot(), CHECK, "no group shipping"),
        (snapshot(brokers={"broker-a": SILENT}), CHECK, "nothing listens"),
        (snapshot(brokers={"broker-a": REFUSED}), ["backlog"], "no permission for code 43"),
        (
            snapshot(row(QueueState.UNKNOWN), brokers={"broker-a": SILENT}),
            CHECK,
            "nothing could be measured",
        ),
        (snapshot(brokers={"broker-a": SILENT, "broker-b": WELL}), CHECK, "nothing listens"),
        (snapshot(row()), [*CHECK, "-t", "missing"], "no topic missing"),
        (snapshot(row()), ["backlog", "describe", "nobody"], "no group nobody"),
        (snapshot(row()), ["backlog", "explain", "nobody"], "no group nobody"),
    ],
)
def test_what_is_not_there(surveyed, capsys, found, args, said):
    surveyed.found = found
    failed(capsys, run(args), said)


@pytest.mark.parametrize(
    ("rest", "code", "word"), [(QueueState.OK, 3, "UNKNOWN"), (QueueState.OFFLINE, 2, "CRITICAL")]
)
def test_one_broker_of_several_down(surveyed, capsys, rest, code, word):
    """Its part is UNKNOWN, the rest is fresh; what is critical for sure wins."""
    rows = [row(QueueState.UNKNOWN), row(rest, broker="broker-b")]
    surveyed.found = snapshot(*rows, brokers={"broker-a": SILENT, "broker-b": WELL})
    assert run(CHECK) == code
    assert capsys.readouterr().out.startswith(f"ORDERLY {word} - ")
    for args in (
        ["backlog", "--by", "queue"],
        ["backlog", "describe", "shipping"],
        ["backlog", "explain"],
    ):
        assert run(args) == 3
        out, err = capsys.readouterr()
        assert ("broker-a" in out, err) == (True, "")


def test_a_group_without_queues_is_not_ok(surveyed, capsys):
    surveyed.found = snapshot(group("shipping"))
    assert run(CHECK) == 3
    assert capsys.readouterr().out.startswith("ORDERLY UNKNOWN - shipping: no queue found")


def test_no_group_that_fits_is_not_ok(surveyed, capsys):
    assert run(["backlog", "check", "-g", "ship*"]) == 3
    assert capsys.readouterr().out == "ORDERLY UNKNOWN - no group found\n"


def test_a_measurement_that_hangs_ends_in_time(surveyed, capsys, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(
        "orderly.monitoring.collecting.survey.survey", lambda *_, **__: released.wait(60)
    )
    began = time.monotonic()
    code = run([*CHECK, "--timeout", "100ms", "--interval", "1h"])
    took = time.monotonic() - began
    released.set()
    failed(capsys, code, "not measured within 1.1 s")
    assert took < 30


def test_nobody_listens(capsys):
    failed(capsys, run([*CHECK, "--namesrv", "127.0.0.1:1"]), "127.0.0.1:1")


def test_a_name_server_that_says_nothing(capsys):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        code = run([*CHECK, "--namesrv", address, "--timeout", "300ms"])
        assert time.monotonic() - began < 9, "10 s is the default"
    failed(capsys, code, address)
