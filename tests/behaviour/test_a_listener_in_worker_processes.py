"""executor="process" runs a listener's function there; what fails is judged here, once for all."""

import json
import os
import sys

import pytest
import structlog

from orderly import Message
from tests.support.topics import dead_letters
from tests.support.waiting import eventually
from tests.support.workers import ship

KEYS = list("abcd")
COUNT = 3


@pytest.fixture(autouse=True)
def main_without_a_file(monkeypatch):
    """Spares each worker the import of pytest, which is our main module."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def test_poison_is_found_by_where_it_failed_and_a_death_is_a_failure(
    producer, topic, group, client, start_member, tmp_path
):
    diary = tmp_path / "diary"
    for number in range(COUNT):
        for key in KEYS:
            what = {("a", 1): {"bad": True}, ("b", 1): {"kills": True}}.get((key, number), {})
            body = json.dumps({"path": str(diary), "number": number} | what)
            producer.send(Message(topic, body.encode(), sharding_key=key))

    def calls():
        return [line.split() for line in diary.read_text().splitlines()] if diary.exists() else []

    with structlog.testing.capture_logs() as events:
        settings = {"order": "key", "executor": "process", "concurrency": 2}
        start_member(recorder=ship, patient=True, **settings)
        eventually(lambda: {c[1] for c in calls() if c[2] == "2"} == set(KEYS), within=30)
    found = {key: [int(n) for _, k, n in calls() if k == key] for key in KEYS}
    assert found == {"a": [0, 1, 2], "b": [0, 1, 1, 2], "c": [0, 1, 2], "d": [0, 1, 2]}
    assert str(os.getpid()) not in {pid for pid, _, _ in calls()}
    (poison,) = [e for e in events if e["event"] == "message.poison"]
    assert (poison["key"], poison["because"]) == ("a", "FATAL")
    assert "tests.support.workers:ship" in poison["fingerprint_text"]
    (again,) = [e for e in events if e["event"] == "message.retry"]
    assert again["reason"].startswith("WorkerDied")
    (dead,) = eventually(lambda: dead_letters(client, group))
    assert json.loads(dead.body)["number"] == 1
