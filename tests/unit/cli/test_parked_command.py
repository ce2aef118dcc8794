"""`orderly parked`: what is shown, what is refused, and the exit codes."""

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.cli import progress as progress_module
from orderly.cli.progress import Progress
from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import ConnectionLost
from orderly.model import MessageQueue
from orderly.monitoring import parked as module
from orderly.monitoring.park_commands import Outcome
from orderly.monitoring.parked import KeyReport, Listing, Renewal
from orderly.protocol.park_record import ParkDetails, Parked
from tests.support.messages import message

QUEUE = MessageQueue("orders", "broker-a", 3)
DETAILS = ParkDetails(key="k", reason="\x1b[2Jwhy", attempts=2, parked_at=9.0, token=1)
FIRST = Parked(replace(message(5), queue=QUEUE, body=b"\x1b]0;x\x07hello"), DETAILS, 7, 9.0, 100)
REPORT = KeyReport(QUEUE, "k\x1b[31m", 2, 200, 2, FIRST, 6, 72.0)
DONE = Outcome(QUEUE, "k", 2)
SILENT = ((replace(QUEUE, queue_id=4), ConnectionLost("broker-a is gone")),)


class Group:
    """Parked keys that the test makes up; remembers what was asked for."""

    def __init__(self):
        self.listing = Listing((REPORT,), (QUEUE,), ())
        self.outcomes = {}
        self.asked = []
        self.renewal = Renewal(2, ())

    def of(self, _client, group, topic):
        return SimpleNamespace(
            list=lambda: self.listing,
            show=lambda key: iter([FIRST]),
            keys=lambda: (("orders", "k"), ("orders", 7), ("payments", "k")),
            release=lambda key, **_: self._ask("release", topic, key),
            try_=lambda key, **_: self._ask("try", topic, key),
            drop=lambda key, **_: self._ask("drop", topic, key),
            replay=lambda key, *_: self._ask("replay", topic, key),
            keepalive=self._keepalive,
        )

    def _ask(self, verb, topic, key):
        self.asked.append((verb, topic, key))
        outcome = self.outcomes.get(key, DONE)
        if isinstance(outcome, Exception):
            raise outcome
        return (outcome,)

    def _keepalive(self, seconds, _progress):
        self.asked.append(seconds)
        return self.renewal


@pytest.fixture
def group(monkeypatch):
    group = Group()

    @contextmanager
    def client(_):
        yield SimpleNamespace()

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.setattr(module, "ParkedMessages", group.of)
    return group


# --- looking -----------------------------------------------------------------------------------


def test_tables_are_safe_for_a_terminal(group, capsys):
    assert run(["parked", "list", "shipping"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out
    assert out.splitlines()[1].split()[:6] == ["orders", "broker-a", "3", "k", "2", "200"]
    assert "1 parked keys of group shipping in 1 queue read on broker-a" in err
    assert run(["parked", "show", "shipping", "k"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "hello" in out


def test_json_has_all_of_it(group, capsys):
    assert run(["parked", "list", "shipping", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["read"]) == ("orderly.parked/v1", ["orders/broker-a/3"])
    (key,) = found["keys"]
    assert (key["key"], key["reason"]) == ("k\x1b[31m", "\x1b[2Jwhy")
    assert (key["since"], key["kept_until"]) == (
        "1970-01-01T00:00:09.000Z",
        "1970-01-01T00:01:12.000Z",
    )


def test_a_queue_that_was_not_read_is_a_row_and_exits_3(group, capsys):
    group.listing = Listing((), (), SILENT)
    assert run(["parked", "list", "shipping"]) == 3
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:5] == ["orders", "broker-a", "4", "UNKNOWN", "-"]
    assert "broker-a is gone" in row


@pytest.mark.parametrize(("unknown", "code"), [((), 0), (SILENT, 3)])
def test_keepalive_counts_hours_and_tells_what_it_could_not_do(group, capsys, unknown, code):
    group.renewal = Renewal(2, unknown)
    assert run(["parked", "keepalive", "shipping", "--older-than", "1.5"]) == code
    assert group.asked == [5400.0]
    err = capsys.readouterr().err
    assert "2 messages appended again" in err
    assert ("UNKNOWN orders/broker-a/4: broker-a is gone" in err) == bool(unknown)


# --- commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        (["release", "shipping", "k"], [("release", None, "k")]),
        (["release", "shipping", "7"], [("release", None, "7")]),
        (["release", "shipping", "7", "--int"], [("release", None, 7)]),
        (["release", "--int", "shipping", "--", "-7"], [("release", None, -7)]),
        (["release", "shipping", "k", "-t", "orders", "--dry-run"], [("try", "orders", "k")]),
        (["drop", "shipping", "k", "--yes"], [("drop", None, "k")]),
        (["replay", "shipping", "k", "--handler", "os.path:join"], [("replay", None, "k")]),
        (
            ["release", "shipping", "--all"],
            [("release", "orders", "k"), ("release", "orders", 7), ("release", "payments", "k")],
        ),
    ],
)
def test_what_is_asked_for(group, args, asked):
    assert run(["parked", *args]) == 0
    assert group.asked == asked


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (DONE, 0),
        (replace(DONE, failed_at=6, reason="again"), 1),
        (replace(DONE, reason="not parked"), 3),
        (replace(DONE, outcomes=((5, "ok"), (6, "ok"))), 0),
        (replace(DONE, outcomes=((5, "ok"), (6, "f1"))), 1),
        (ConnectionLost("gone"), 3),
    ],
    ids=["done", "stopped", "refused", "cured", "not cured", "no answer"],
)
def test_the_exit_code_is_the_verdict(group, outcome, code):
    group.outcomes = {"k": outcome}
    assert run(["parked", "release", "shipping", "k"]) == code


def test_what_was_done_before_a_failure_is_told(group, capsys):
    group.outcomes = {7: ConnectionLost("broker-a is gone")}
    assert run(["parked", "release", "shipping", "--all", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    assert [key["key"] for key in json.loads(out)["keys"]] == ["k"]
    assert "broker-a is gone" in err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["release", "shipping"], "give KEY, or --all"),
        (["release", "shipping", "k", "--all"], "give KEY, or --all"),
        (["release", "shipping", "k", "--int"], "whole number"),
        (["drop", "shipping", "k"], "give --yes"),
        (["replay", "shipping", "k"], "--handler"),
        (["replay", "shipping", "k", "--handler", "join"], "PKG.MODULE:NAME"),
        (["replay", "shipping", "k", "--handler", "no.such:thing"], "cannot be imported"),
        (["replay", "shipping", "k", "--handler", "os.path:no_such"], "cannot be imported"),
        (["replay", "shipping", "k", "--handler", "os:sep"], "not a function"),
        (["release", "bad group", "k"], "group"),
    ],
)
def test_what_cannot_be_done_asks_for_nothing(group, capsys, args, text):
    assert run(["parked", *args]) == 3
    assert group.asked == []
    assert text in capsys.readouterr().err


def test_progress_is_told_once_a_second_at_most(monkeypatch, capsys):
    times = iter([0.0, 0.5, 1.0, 1.5, 2.5])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(times))
    progress = Progress("sent", 9)
    for count in range(1, 5):
        progress.reached(count)
    assert capsys.readouterr().err.splitlines() == ["2 of 9 sent", "4 of 9 sent"]
