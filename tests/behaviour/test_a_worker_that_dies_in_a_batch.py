"""A worker process dies of one message of a batch: the others are no dead letters because of it."""

import sys

import pytest
import structlog

from tests.support import workers
from tests.support.waiting import eventually
from tests.support.workers import Diary

COUNT = 6
LIMIT = 2  # failures that are tried again


@pytest.fixture(autouse=True)
def main_without_a_file(monkeypatch):
    """Spares each worker the import of pytest, which is our main module."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("deadly", [0, 2])
def test_only_that_one_is_given_up(
    named, deadly, producer, topic, group, client, start_member, tmp_path
):
    diary = Diary(tmp_path / "diary")
    for number in range(COUNT):
        message = diary.message(topic, "k", number, die=number == deadly, named=named)
        queue = producer.send(message).queue
    settings = {"order": "key", "executor": "process", "batch_size": 3, "concurrency": 1}
    settings |= {"suspend": 0.05, "max_suspend": 0.1, "max_reconsume_times": LIMIT}
    with structlog.testing.capture_logs() as events:
        member, _ = start_member(recorder=workers.handle_batch, patient=True, **settings)
        eventually(lambda: len(set(diary.numbers())) == COUNT - 1, within=60)
        eventually(lambda: dead_letters(events), within=60)
        member.close()
    assert dead_letters(events) == [(deadly, f"failed {LIMIT + 1} times")]
    left = [number for number in range(COUNT) if number != deadly]
    done = diary.numbers()
    if named:
        assert done == left, "what was named done before the death is done"
    else:
        assert list(dict.fromkeys(done)) == left
        assert len(done) <= len(left) + deadly, "again once, to find out which one it is"
    assert client.brokers.query_offset(group, queue) == COUNT


def dead_letters(events):
    found = [event for event in list(events) if event["event"] == "message.dead_lettered"]
    return [(event["offset"], event["reason"]) for event in found]
