"""`orderly offsets`: what is refused, what is sent, what is told; on offsets the test makes up."""

import json
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import click
import pytest

from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import GroupNotFound, RequestTimeout
from orderly.model import MessageQueue
from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.collecting import survey as survey_module
from tests.support.snapshots import group as group_of
from tests.support.snapshots import snapshot

RESET = ["offsets", "reset", "--group", "shipping", "--topic", "orders"]


def queue(number):
    return MessageQueue("orders", "broker-a", number)


def row(minimum, committed, maximum, queue_id=0, state=QueueState.OK):
    return QueueStatus("shipping", queue(queue_id), state, "", minimum, committed, maximum)


class Brokers:
    """Offsets that the test makes up; remembers which resets were sent."""

    def __init__(self):
        self.rows = [row(2, 5, 9), row(2, None, 9, 1)]
        self.members = ["c1"]
        self.sent = []
        self.failure = None
        self.found_by_time = 4

    def survey(self, _client, _selection):
        return snapshot(group_of("shipping", self.rows)) if self.rows else snapshot()

    def consumer_connections(self, _group):
        if self.members is None:
            raise RequestTimeout("no reply")
        ids = [SimpleNamespace(client_id=name) for name in self.members]
        return SimpleNamespace(connections=ids) if ids else None

    def reset_queues(self, group, offsets):
        if self.failure:
            raise self.failure
        self.sent.append((group, offsets))

    def search_offset(self, _queue, moment):
        self.moment = moment
        return self.found_by_time

    def client(self):
        return SimpleNamespace(
            admin=SimpleNamespace(consumer_connections=self.consumer_connections),
            groups=SimpleNamespace(reset_queues=self.reset_queues),
            brokers=SimpleNamespace(search_offset=self.search_offset),
            routes=SimpleNamespace(get=lambda topic: topic),
        )


@pytest.fixture
def brokers(monkeypatch):
    brokers = Brokers()

    @contextmanager
    def client(_):
        yield brokers.client()

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.setattr(survey_module, "survey", brokers.survey)
    return brokers


@pytest.fixture
def terminal(monkeypatch):
    """Let somebody sit there and give the answer of the test."""

    def sit(answer):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(click, "confirm", lambda *_, **__: answer)

    return sit


# --- show --------------------------------------------------------------------------------------


def test_show_never_writes_0_for_what_is_not_known(brokers, capsys):
    brokers.rows = [row(2, 0, 9), row(2, None, 9, 1)]
    assert run(["offsets", "show", "-g", "shipping"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["TOPIC", "BROKER", "QUEUE", "MIN", "COMMITTED", "MAX"]
    assert [line.split()[3:] for line in lines[1:]] == [["2", "0", "9"], ["2", "-", "9"]]


def test_show_as_json(brokers, capsys):
    assert run(["offsets", "show", "-g", "shipping", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["group"]) == ("orderly.offsets/v1", "shipping")
    assert found["queues"][1] == {
        "topic": "orders",
        "broker": "broker-a",
        "queue": 1,
        "min": 2,
        "committed": None,
        "max": 9,
    }


@pytest.mark.parametrize(
    "unread",
    [row(2, None, 9, state=QueueState.UNKNOWN), row(None, 5, None, state=QueueState.UNKNOWN)],
    ids=["committed", "span"],
)
def test_what_could_not_be_read_is_shown_as_such_and_exits_3(brokers, capsys, unread):
    brokers.rows = [unread, row(2, 5, 9, 1)]
    assert run(["offsets", "show", "-g", "shipping"]) == 3
    assert "-" in capsys.readouterr().out.splitlines()[1].split()


def test_a_group_without_offsets_is_told(brokers, capsys):
    brokers.rows = []
    assert run(["offsets", "show", "-g", "shipping"]) == 3
    assert "no committed offset" in capsys.readouterr().err


# --- reset -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (["--to-earliest"], {queue(0): 2, queue(1): 2}),
        (["--to-latest"], {queue(0): 9, queue(1): 9}),
        (["--to-time", "1970-01-01T00:00:12Z"], {queue(0): 4, queue(1): 4}),
        (["--to-offset", "7", "--queue", "broker-a:1"], {queue(1): 7}),
        (["--to-offset", "2", "--queue", "broker-a:1"], {queue(1): 2}),
        (["--to-offset", "9", "--queue", "broker-a:1"], {queue(1): 9}),
    ],
)
def test_what_was_shown_is_what_is_sent(brokers, capsys, target, sent):
    assert run([*RESET, *target, "--yes"]) == 0
    assert brokers.sent == [("shipping", sent)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[-2:] == ["BEFORE", "AFTER"]
    before = {0: "5", 1: "-"}
    assert [line.split()[-2:] for line in lines[1:]] == [
        [before[q.queue_id], str(offset)] for q, offset in sent.items()
    ]


@pytest.mark.parametrize(("found", "sent"), [(0, 2), (1, 2), (50, 9)])
def test_a_time_outside_the_queue_goes_to_its_end(brokers, found, sent):
    brokers.found_by_time = found
    assert run([*RESET, "--to-time", "1970-01-01T00:00:12.5+00:00", "--yes"]) == 0
    assert brokers.moment == 12.5
    assert brokers.sent[0][1] == {queue(0): sent, queue(1): sent}


def test_a_dry_run_sends_nothing(brokers, capsys):
    assert run([*RESET, "--to-earliest", "--dry-run", "-o", "json"]) == 0
    assert brokers.sent == []
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["dry_run"]) == ("orderly.offsets-reset/v1", True)
    assert found["clients"] == ["c1"]
    assert found["queues"][1] == {
        "broker": "broker-a",
        "queue": 1,
        "min": 2,
        "max": 9,
        "before": None,
        "after": 2,
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "exactly one"),
        (["--to-earliest", "--to-latest"], "exactly one"),
        (["--to-offset", "3"], "go together"),
        (["--queue", "broker-a:0", "--to-earliest"], "go together"),
        (["--to-offset", "3", "--queue", "broker-a"], "BROKER:ID"),
        (["--to-offset", "3", "--queue", ":0"], "BROKER:ID"),
        (["--to-offset", "3", "--queue", "broker-a:7"], "broker-a:0, broker-a:1"),
        (["--to-offset", "1", "--queue", "broker-a:1"], "2 to 9"),
        (["--to-offset", "10", "--queue", "broker-a:1"], "2 to 9"),
        (["--to-time", "yesterday"], "ISO 8601"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(brokers, capsys, args, said):
    assert run([*RESET, *args, "--yes"]) == 3
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err
    assert brokers.sent == []


def test_a_queue_that_could_not_be_read_stops_all(brokers, capsys):
    brokers.rows = [row(2, 5, 9), row(None, None, None, 1, QueueState.UNKNOWN)]
    assert run([*RESET, "--to-earliest", "--yes"]) == 3
    assert "orders/broker-a/1" in capsys.readouterr().err
    assert brokers.sent == []


def test_without_a_terminal_it_is_not_done(brokers, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert run([*RESET, "--to-earliest"]) == 3
    assert "--yes" in capsys.readouterr().err
    assert run([*RESET, "--to-earliest", "-o", "json"]) == 3
    assert brokers.sent == []


@pytest.mark.parametrize(("answer", "code", "times"), [(True, 0, 1), (False, 3, 0)])
def test_on_a_terminal_the_answer_decides(brokers, capsys, terminal, answer, code, times):
    terminal(answer)
    assert run([*RESET, "--to-earliest"]) == code
    assert len(brokers.sent) == times
    assert ("nothing was changed" in capsys.readouterr().err) is not answer


@pytest.mark.parametrize(
    ("members", "said"), [(["c1", "c2"], "2 online"), ([], "nobody is online"), (None, "not known")]
)
def test_who_takes_it_is_told(brokers, capsys, members, said):
    brokers.members = members
    assert run([*RESET, "--to-earliest", "--yes"]) == 0
    assert said in capsys.readouterr().err


def test_a_failure_on_the_way_is_told(brokers, capsys):
    brokers.failure = GroupNotFound("no such group", code=26)
    assert run([*RESET, "--to-earliest", "--yes"]) == 3
    err = capsys.readouterr().err
    assert "orderly offsets show" in err
    assert "no such group" in err
