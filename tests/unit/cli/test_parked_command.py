"""`orderly parked`: what is shown, what is refused, and the exit codes."""

import json
import shlex
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.cli import progress as progress_module
from orderly.cli.progress import Progress
from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import ConnectionLost, RequestTimeout
from orderly.foreign_text import hidden
from orderly.model import MessageQueue
from orderly.monitoring import parked as module
from orderly.monitoring.parking.commands import Outcome
from orderly.monitoring.parking.queues import NotParked
from orderly.monitoring.parking.reports import Added, Exported, KeyReport, Listing, Renewal
from orderly.monitoring.texts import key_command
from orderly.protocol.park_record import ParkDetails, Parked
from tests.support.messages import message

QUEUE = MessageQueue("orders", "broker-a", 3)
WHY = "\x1b[2Jwhy"
DETAILS = ParkDetails(key="k", reason=WHY, attempts=2, parked_at=9.0, token=1)
FIRST = Parked(replace(message(5), queue=QUEUE, body=b"\x1b]0;x\x07hello"), DETAILS, 7, 9.0, 100)
REPORT = KeyReport(QUEUE, "k\x1b[31m", 2, 200, 2, 0, FIRST, 6, 72.0)
DONE = Outcome(QUEUE, "k", 2)
SILENT = ((replace(QUEUE, queue_id=4), ConnectionLost("broker-a is gone")),)


class Group:
    """Parked keys that the test makes up; remembers what was asked for."""

    def __init__(self):
        self.listing = Listing((REPORT,), (QUEUE,), ())
        self.outcomes = {}
        self.asked = []
        self.renewal = Renewal(2, ())
        self.shown = [FIRST]
        self.exported = Exported(9, 4)
        self.added = Added((DONE,), (QUEUE,), ())

    def of(self, _client, group, topic):
        return SimpleNamespace(
            list=lambda: self.listing,
            show=lambda key: iter(self.shown),
            export=self._export,
            keys=lambda: (("orders", "k"), ("orders", 7), ("payments", "k")),
            release=lambda key, **told: self._ask("release", topic, key, **told),
            try_=lambda key, **told: self._ask("try", topic, key, **told),
            drop=lambda key, **told: self._ask("drop", topic, key, **told),
            add=lambda key, **told: self._add(topic, key, **told),
            keepalive=self._keepalive,
        )

    def _ask(self, verb, topic, key, on_sent=None, patience=None, **_):
        self.asked.append((verb, topic, key))
        self.patience = patience
        if on_sent is not None:
            on_sent(f"{verb} is sent")
        outcome = self.outcomes.get(key, DONE)
        if isinstance(outcome, Exception):
            raise outcome
        return (outcome,)

    def _add(self, topic, key, *, dry_run, patience, on_sent):
        self.asked.append(("look" if dry_run else "add", topic, key))
        self.patience = patience
        on_sent("add is sent")
        return self.added

    def _export(self, _path):
        if isinstance(self.exported, Exception):
            raise self.exported
        return self.exported

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
    row = ["orders", "broker-a", "3", r"k\x1b[31m", "2"]
    assert out.splitlines()[1].split()[:5] == row, "of the key nothing is left out"
    assert out.splitlines()[1].split()[5:7] == ["1970-01-01T00:00Z", "1970-01-01T00:01Z"]
    assert "1 parked key of group shipping in 1 queue read on broker-a" in err
    assert run(["parked", "show", "shipping", "k"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "hello" in out


def test_the_tables_say_what_failed(group, capsys):
    for details, why in (
        (DETAILS, "why"),
        (replace(DETAILS, fingerprint="ValueError at a.py:3"), "ValueError at a.py:3"),
        (replace(DETAILS, fingerprint="f", first_error="ValueError: no"), "ValueError: no"),
    ):
        first = replace(FIRST, details=details)
        group.listing = Listing((replace(REPORT, first=first),), (QUEUE,), ())
        group.shown = [first]
        for args in (["list", "shipping"], ["show", "shipping", "k"]):
            assert run(["parked", *args]) == 0
            assert why in capsys.readouterr().out


def failed(key, fingerprint, queue=QUEUE, messages=2, parked_at=9.0):
    details = replace(DETAILS, fingerprint=fingerprint, parked_at=parked_at)
    first = replace(FIRST, details=details)
    return replace(REPORT, key=key, queue=queue, first=first, messages=messages)


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        ("fingerprint", [("a.Bad[4]: no (a:f)", 2, 5), ("a.Bad: other", 1, 2), (WHY, 1, 1)]),
        ("class", [("a.Bad", 3, 7), (None, 1, 1)]),
        ("queue", [("orders/broker-a/3", 3, 6), ("orders/broker-a/4", 1, 2)]),
    ],
)
def test_keys_are_counted_by_what_failed_alike(group, capsys, by, counts):
    reports = (
        failed("a", "a.Bad[4]: no (a:f)", messages=3, parked_at=7.0),
        failed("b", "a.Bad[4]: no (a:f)"),
        failed("c", "a.Bad: other", queue=replace(QUEUE, queue_id=4)),
        failed("d", None, messages=1),
    )
    group.listing = Listing(reports, (QUEUE,), SILENT)
    assert run(["parked", "list", "shipping", "--group-by", by, "-o", "json"]) == 3
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["schema"], found["by"]) == ("orderly.parked-groups/v1", by)
    assert [(it[by], it["keys"], it["messages"]) for it in found["groups"]] == counts
    assert (found["groups"][0]["first"], len(found["unknown"])) == ("1970-01-01T00:00:07.000Z", 1)
    assert "UNKNOWN orders/broker-a/4: broker-a is gone" in err
    assert run(["parked", "list", "shipping", "--group-by", by]) == 3
    assert capsys.readouterr().out.split()[:5] == [by.upper(), "KEYS", "MESSAGES", "FIRST", "LAST"]


@pytest.mark.parametrize("form", ["table", "json"])
def test_redacted_neither_keys_nor_texts_of_failures_are_listed(group, capsys, form):
    details = replace(DETAILS, reason="of jane", first_error="no jane", last_error="no jane")
    first = replace(FIRST, details=replace(details, fingerprint="ValueError at a.py:3"))
    reports = tuple(replace(REPORT, key=key, first=first) for key in ("jane", 7))
    group.listing = Listing(reports, (QUEUE,), ())
    assert run(["parked", "list", "shipping", "-o", form, "--redact-keys", "hash"]) == 0
    out, err = capsys.readouterr()
    assert "jane" not in out + err
    assert hidden("jane") in out
    assert hidden(7) in out
    assert "ValueError at a.py:3" in out


def test_a_number_is_shown_as_it_is_to_be_given(group, capsys):
    group.listing = Listing((replace(REPORT, key=1234567),), (QUEUE,), ())
    assert run(["parked", "list", "shipping"]) == 0
    assert " --int 1234567 " in capsys.readouterr().out


def test_on_a_narrow_terminal_no_key_is_cut(group, capsys, monkeypatch):
    pytest.importorskip("rich")
    key = "abcdefghijklmnopqrstuvwxyz0123456789"
    group.listing = Listing((replace(REPORT, key=key),), (QUEUE,), ())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    assert run(["parked", "list", "shipping"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heading = next(line for line in lines if "key" in line)
    start, end = heading.index("key"), heading.index("messages")
    assert key in "".join(line[start:end].strip() for line in lines)


def test_messages_that_are_gone_are_told(group, capsys):
    group.listing = Listing((replace(REPORT, recorded=5, gone=3),), (QUEUE,), ())
    assert run(["parked", "list", "shipping"]) == 0
    assert "up to 3 messages that were counted may be gone" in capsys.readouterr().err
    assert run(["parked", "export", "shipping", "f"]) == 0
    err = capsys.readouterr().err
    assert "9 messages written to f" in err
    assert "not in it: up to 4 messages" in err


def test_only_the_first_messages_are_shown_and_that_is_said(group, capsys):
    group.shown = [FIRST] * 3
    assert run(["parked", "show", "shipping", "k", "--limit", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.count("hello") == 2
    assert "only the first 2 messages" in err
    assert run(["parked", "show", "shipping", "k", "--limit", "3"]) == 0
    assert "only" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told", "untold"),
    [
        (RequestTimeout("broker-a did not answer"), "broker-a did not answer", "f cannot be"),
        (FileNotFoundError(2, "No such folder", "/x/.f.tmp"), "f cannot be written: No such", ".f"),
    ],
)
def test_why_nothing_was_exported(group, capsys, error, told, untold):
    group.exported = error
    assert run(["parked", "export", "shipping", "f"]) == 3
    err = capsys.readouterr().err
    assert told in err
    assert untold not in err


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
        (["add", "shipping", "k"], [("add", None, "k")]),
        (["add", "shipping", "7", "--int", "-t", "orders", "--dry-run"], [("look", "orders", 7)]),
        (
            shlex.split(key_command("add", "shipping", "orders", "-7"))[2:],
            [("add", "orders", "-7")],
        ),
        (shlex.split(key_command("release", "shipping", "o", -7))[2:], [("release", "o", -7)]),
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
        (replace(DONE, outcomes=((5, "ok"),), reason="only the first 1 of 2 were tried"), 3),
        (ConnectionLost("gone"), 3),
    ],
    ids=["done", "stopped", "refused", "cured", "not cured", "not all tried", "no answer"],
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


def test_what_was_not_tried_is_told(group, capsys):
    group.outcomes = {7: ConnectionLost("broker-a is gone")}
    assert run(["parked", "release", "shipping", "--all"]) == 3
    assert "1 more keys were not tried" in capsys.readouterr().err


def test_a_key_that_somebody_else_released_stops_no_other(group, capsys):
    group.outcomes = {7: NotParked("7 is not parked")}
    assert run(["parked", "release", "shipping", "--all", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    assert [key["key"] for key in json.loads(out)["keys"]] == ["k", "k"]
    assert "error: 7 is not parked\n" in err
    assert "not tried" not in err


@pytest.mark.parametrize("args", [["release"], ["release", "--dry-run"], ["drop", "--yes"]])
def test_that_the_command_is_sent_is_told_and_the_wait_can_be_chosen(group, capsys, args):
    verb, *more = args
    assert run(["parked", verb, "shipping", "k", "--timeout", "7", *more]) == 0
    assert "is sent\n" in capsys.readouterr().err
    assert group.patience == 7


@pytest.mark.parametrize(
    ("added", "code", "told"),
    [
        (Added((DONE,), (QUEUE,), ()), 0, "orderly parked release shipping k -t orders\n"),
        (Added((replace(DONE, settled=0, reason="no"),), (QUEUE,), ()), 3, "error: key 'k' of"),
        (Added((), (QUEUE,), ()), 3, "error: no message of key 'k' waits in 1 queue"),
        (Added((DONE,), (QUEUE,), SILENT), 3, "UNKNOWN orders/broker-a/4: broker-a is gone"),
    ],
    ids=["parked", "refused", "nothing waits", "not all known"],
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_what_came_of_having_a_key_parked(group, capsys, added, code, told, form):
    group.added = added
    assert run(["parked", "add", "shipping", "k", "-o", form, "--timeout", "7"]) == code
    out, err = capsys.readouterr()
    assert told in err
    assert group.patience == 7
    if form == "json":
        found = json.loads(out)
        assert found["schema"] == "orderly.parked-add/v1"
        assert [(k["key"], k["parked"], k["reason"]) for k in found["keys"]] == [
            ("k", o.settled, o.reason) for o in added.outcomes
        ]
        assert len(found["unknown"]) == len(added.unknown)


def test_a_dry_run_of_add_says_what_would_be_parked(group, capsys):
    assert run(["parked", "add", "shipping", "k", "--dry-run"]) == 0
    assert "2 messages would be parked" in capsys.readouterr().err


def test_why_a_command_was_refused_is_on_stderr(group, capsys):
    group.outcomes = {"k": replace(DONE, reason="\x1b[2Jno dry runs here")}
    assert run(["parked", "release", "shipping", "k", "--dry-run"]) == 3
    assert "error: key 'k' of orders/broker-a/3: no dry runs here\n" in capsys.readouterr().err


def test_a_dry_run_is_summed_up(group, capsys):
    group.outcomes = {"k": replace(DONE, outcomes=((5, "ok"), (6, "f1"), (7, "f1")))}
    run(["parked", "release", "shipping", "k", "--dry-run"])
    assert "2 of 3 messages tried fail" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["release", "shipping"], "give KEY, or --all"),
        (["release", "shipping", "k", "--all"], "give KEY, or --all"),
        (["release", "shipping", "k", "--int"], "whole number"),
        (["drop", "shipping", "k"], "give --yes"),
        (["replay", "shipping", "k", "--handler", "os:sep"], "no such command"),
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
