"""A hostile key, and failures that quote it: in every output it acts on nothing, or is not shown.

What the program logs, what the member tells brokers of itself, and what the commands print of it,
in all formats. With `redact_keys` nothing of the key, of the body and of the failures is in it.
"""

import csv
import io
import json
import logging
import os

import pytest

from orderly import (
    Ack,
    Client,
    ClientConfig,
    ConsumerConfig,
    DeadLetter,
    Fail,
    Listener,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    Park,
    Skip,
)
from orderly.cli.root import run
from orderly.foreign_text import hidden
from tests.support.programs import Document
from tests.support.waiting import PATIENCE, eventually

NAME, CARD = "jane-4711", "4111-1111"  # whatever shows one of them shows personal data
KEY = f"={NAME}\x1b[2J\u202e<script>alert(1)</script>\nforged='line'"
ENDS = ["raise", "fail", "park", "dead", "skip"]  # keys: KEY and one of these
TOLD_OF = [
    "handler.raised", "handler.answered_fail", "key.parked", "message.dead_lettered",
    "message.retry", "message.skipped",
]  # fmt: skip
COMMANDS = {  # and their formats; {} is the group
    ("backlog", "list", "{}"): ("table", "wide", "json", "yaml", "csv", "prometheus", "nagios"),
    ("backlog", "describe", "{}"): ("table", "json", "yaml"),
    ("backlog", "explain", "{}"): ("table", "json", "csv"),
    ("parked", "list", "{}"): ("table", "json"),
    ("dlq", "list", "{}"): ("table", "json"),
}


def ship(message, attempt):
    """Fail in each way, in words that quote the message."""
    said = f"no account of {message.sharding_key}: {message.body!r}"
    match message.sharding_key.removeprefix(KEY):
        case "fail":
            return Fail(said)
        case "park":
            return Park(said)
        case "dead":
            return DeadLetter(said)
        case "skip":
            return Skip(said)
        case "raise":
            raise LookupError(said)
    return Ack()


def by_hand(messages, context):
    """The same for a plain handler."""
    answer = ship(messages[0], context)
    return DeadLetter(answer.reason) if isinstance(answer, Skip) else answer


@pytest.fixture(params=["", "hash"], ids=["shown", "redacted"])
def redact(request, monkeypatch, orderly_namesrv):
    monkeypatch.setenv("ORDERLY_CONFIG", os.devnull)
    monkeypatch.setenv("ORDERLY_NAMESRV", orderly_namesrv)
    monkeypatch.setenv("ORDERLY_REDACT_KEYS", request.param)
    monkeypatch.setenv("ORDERLY_REQUEST_TIMEOUT", str(PATIENCE))
    return request.param


@pytest.fixture
def group_members(redact, topic, group, closing, caplog):
    """Two groups that have told all there is to tell; by name."""
    caplog.set_level(logging.DEBUG, logger="orderly")
    client = closing(Client(ClientConfig.from_env()))
    producer = closing(OrderlyProducer(client=client))
    for end in ENDS:
        body = f"card={CARD}".encode()
        producer.send(Message(topic, body, sharding_key=KEY + end, keys=(f"{NAME}-index",)))
    settings = {"order": "key", "consume_from": "first", "suspend": 0.05, "max_suspend": 0.1}
    handlers = {group: Listener(ship, on_poison="block"), f"{group}-plain": by_hand}
    group_members = {
        name: closing(
            OrderlyConsumer(name, act, client=client, config=ConsumerConfig(**settings)).subscribe(
                topic
            )
        )
        for name, act in handlers.items()
    }
    for event in TOLD_OF:
        eventually(lambda event=event: f"event='{event}'" in caplog.text, within=60)
    return group_members


@pytest.fixture
def told(group_members, client, caplog, capsys, tmp_path):
    """All that was said, by where."""
    texts = {f"log {n}": record.getMessage() for n, record in enumerate(caplog.records)}
    for name, member in group_members.items():
        texts[f"health {name}"] = member.health().to_json()
        info = client.groups.running_info(name, member.client_id)
        texts[f"info {name}"] = "\n".join(info.user.values())
    for words, formats in COMMANDS.items():
        for form in formats:
            run([*(word.format(min(group_members)) for word in words), "-o", form])
            texts[f"{' '.join(words)} {form}"] = capsys.readouterr().out
    page = tmp_path / "report.html"
    assert run(["backlog", "report", f"{min(group_members)}*", "--out", str(page)]) in (0, 3)
    return texts | {"report": page.read_text()}


def shown(told, what):
    return [where for where, text in told.items() if what in text]


@pytest.mark.parametrize("redact", ["hash"], indirect=True)
def test_redacted_nothing_of_the_messages_is_shown(told):
    assert shown(told, NAME) == []
    assert shown(told, CARD) == []
    for where in ("log", "info", "backlog describe", "parked list", "dlq list"):  # yet told apart
        hashes = [hidden(KEY + end) for end in ENDS]
        texts = [text for name, text in told.items() if name.startswith(where)]
        assert any(each in text for each in hashes for text in texts), where
    assert shown(told, "LookupError"), "how it failed is told"


@pytest.mark.parametrize("redact", [""], indirect=True)
def test_shown_it_acts_on_nothing(told):
    for where in ("log", "info", "backlog describe", "parked list", "dlq list", "report"):
        assert any(name.startswith(where) for name in shown(told, NAME)), (
            f"a test of nothing: {where}"
        )
    for where, text in told.items():
        unseen = [c for c in text if not c.isprintable() and c not in "\n\t"]
        assert unseen == [], where
        assert "\nforged" not in text, where
    assert [text for where, text in told.items() if where.startswith("log") and "\n" in text] == []
    assert "script" not in Document(told["report"]).tags
    for where in told:
        if where.endswith(" csv"):
            cells = [cell for row in csv.reader(io.StringIO(told[where])) for cell in row]
            assert [cell for cell in cells if cell.startswith(("=", "+", "@"))] == [], where
        if where.endswith(" json"):
            json.loads(told[where])
