"""`orderly dlq`: what is shown, what is asked before anything is sent, and the exit codes."""

import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import click
import pytest

from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import ConfigError, ConnectionLost, SendFailed
from orderly.foreign_text import hidden
from orderly.model import MessageQueue, SendResult
from orderly.monitoring import dead_letters as module
from orderly.monitoring.dead_letters import DeadLetter, Replayed, ReplayPlan
from tests.support.messages import message

SENT = SendResult(MessageQueue("orders", "broker-a", 3), 17, "new", "o")


def letter(offset, key="k", **more):
    found = replace(message(offset, key), **more)
    return DeadLetter(replace(found, properties={**found.properties, "RETRY_TOPIC": "orders"}))


class Group:
    """Dead letters that the test makes up; remembers which were sent where."""

    def __init__(self):
        self.letters = [letter(1), letter(2, None), letter(3, "\x1b[2Jevil", body=b"\xff\x1b[31m")]
        self.failing = ()
        self.foreign = ()
        self.interrupted = None
        self.sent = []

    def list(self):
        return self.letters

    def plan(self, letters, to):
        due = tuple((to or each.topic, each) for each in letters if each not in self.foreign)
        error = ConfigError("it says that it came from \x1b[2J")
        refused = tuple(Replayed(each, None, error) for each in letters if each in self.foreign)
        return ReplayPlan(due, refused)

    def replay(self, plan):
        yield from plan.refused
        for to, each in plan.due:
            self.sent.append((each, to))
            if each is self.interrupted:
                raise KeyboardInterrupt
            if each in self.failing:
                error = SendFailed("it was not acknowledged")
                error.__cause__ = ConnectionLost("broker-a is gone")
                yield Replayed(each, None, error)
            else:
                yield Replayed(each, SENT, None)


@pytest.fixture
def group(monkeypatch):
    group = Group()

    @contextmanager
    def client(_):
        yield SimpleNamespace()

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.setattr(module, "DeadLetters", lambda _client, _group: group)
    return group


@pytest.fixture
def terminal(monkeypatch):
    """Let somebody sit there and give the answer of the test."""

    def sit(answer):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(click, "confirm", lambda *_, **__: answer)

    return sit


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        ("topic", [("orders", 2, 3)]),
        ("tags", [(None, 2, 3)]),
        ("key", [("\x1b[2Jevil", 1, 1), (None, 0, 1), ("k", 1, 1)]),
    ],
)
def test_letters_are_counted_by_what_they_have_in_common(group, capsys, by, counts):
    assert run(["dlq", "list", "shipping", "--group-by", by, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["by"]) == ("orderly.dlq-groups/v1", by)
    assert [(it[by], it["keys"], it["messages"]) for it in found["groups"]] == counts
    assert run(["dlq", "list", "shipping", "--group-by", by]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_table_is_safe_for_a_terminal(group, capsys):
    assert run(["dlq", "list", "shipping"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [line.split()[2] for line in out.splitlines()[1:]] == ["1", "2", "3"]


def test_json_tells_the_same_and_the_whole_body(group, capsys):
    assert run(["dlq", "list", "shipping", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "orderly.dlq/v1"
    assert found["dead_letters"][0]["body"] == "body"
    assert found["dead_letters"][2]["body_base64"] == "/xtbMzFt"


@pytest.mark.parametrize("form", ["table", "json"])
def test_redacted_neither_keys_nor_bodies_are_listed(group, capsys, form):
    group.letters = [letter(1, "jane", body=b"card of jane"), letter(2, None)]
    assert run(["dlq", "list", "shipping", "-o", form, "--redact-keys", "hash"]) == 0
    out = capsys.readouterr().out
    assert "jane" not in out
    assert hidden("jane") in out


@pytest.mark.usefixtures("group")
def test_an_empty_list_is_told(group, capsys):
    group.letters = []
    assert run(["dlq", "list", "shipping"]) == 0
    assert "group shipping has no dead letters" in capsys.readouterr().err


def test_what_was_sent_is_told_with_what_was_not(group, capsys):
    group.failing = (group.letters[0],)
    assert run(["dlq", "replay", "shipping", "--yes", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    told = json.loads(out)["messages"]
    assert [(m["message_id"], m["offset"], m["error"]) for m in told] == [
        ("offset-id-1", None, "broker-a is gone"),
        ("offset-id-2", 17, None),
        ("offset-id-3", 17, None),
    ]
    assert "2 of 3 sent; the order of their keys has a gap" in err
    assert "1 have no sharding key" in err


def test_an_interrupted_replay_tells_what_was_sent(group, capsys):
    group.interrupted = group.letters[1]
    assert run(["dlq", "replay", "shipping", "--yes", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    assert [(m["message_id"], m["offset"]) for m in json.loads(out)["messages"]] == [
        ("offset-id-1", 17)
    ]
    assert "1 of 3 sent" in err
    assert "2 more may have been sent, or not" in err
    assert "error: interrupted" in err


def test_of_a_key_nothing_is_left_out(group, capsys):
    assert run(["dlq", "list", "shipping"]) == 0
    assert r"\x1b[2Jevil" in capsys.readouterr().out
    assert run(["dlq", "replay", "shipping", "--yes"]) == 0
    assert r"\x1b[2Jevil" in capsys.readouterr().out


def test_only_the_named_ones_are_sent(group):
    args = ["dlq", "replay", "shipping", "--yes", "--to", "other"]
    assert run([*args, "--ids", "offset-id-3, offset-id-1"]) == 0
    assert group.sent == [(group.letters[0], "other"), (group.letters[2], "other")]


@pytest.mark.parametrize("ids", ["nobody", "offset-id-1,nobody", ","])
def test_an_id_that_is_not_there_sends_nothing(group, capsys, ids):
    assert run(["dlq", "replay", "shipping", "--yes", "--ids", ids]) == 3
    assert group.sent == []
    assert "nothing was sent" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code", "sent"), [(True, 0, 3), (False, 3, 0)])
def test_somebody_is_asked_and_told_of_the_gap(group, terminal, capsys, answer, code, sent):
    terminal(answer)
    assert run(["dlq", "replay", "shipping"]) == code
    assert len(group.sent) == sent
    assert "the order of their keys has a gap" in capsys.readouterr().err


@pytest.mark.parametrize("foreign", [1, 3])
def test_what_is_refused_is_told_and_nobody_asked_of_it(
    group, terminal, monkeypatch, capsys, foreign
):
    terminal(answer=True)
    asked = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: not asked.append(text))
    group.foreign = group.letters[:foreign]
    assert run(["dlq", "replay", "shipping"]) == 3
    assert len(group.sent) == 3 - foreign
    out, err = capsys.readouterr()
    assert out.count("it says that it came from") == foreign
    assert "\x1b" not in out
    assert f"{3 - foreign} of 3 sent" in err
    assert asked == ["Send 2 messages to orders?"] * (foreign < 3)


@pytest.mark.parametrize("args", [[], ["-o", "json"]])
def test_nobody_to_ask_means_no(group, monkeypatch, args):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert run(["dlq", "replay", "shipping", *args]) == 3
    assert group.sent == []
