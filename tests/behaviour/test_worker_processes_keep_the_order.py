"""executor="process" keeps the order of a key; of a process that dies only its message repeats."""

import os
import sys
from collections import Counter

import pytest
import structlog

from orderly.testing.oracle import Delivered, Sent, judge
from tests.support import workers
from tests.support.waiting import eventually
from tests.support.workers import Diary

KEYS = [f"k{i}" for i in range(6)]
COUNT = 6
FATAL = ("k2", 3)


@pytest.fixture(autouse=True)
def main_without_a_file(monkeypatch):
    """Spares each worker the import of pytest, which is our main module."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def test_each_key_in_order_and_a_killed_worker_repeats_only_its_message(
    producer, topic, start_member, tmp_path
):
    diary, sent = Diary(tmp_path / "diary"), []
    for number in range(COUNT):
        for key in KEYS:
            message = diary.message(topic, key, number, die=(key, number) == FATAL)
            place = producer.send(message)
            lane = (place.queue.queue_id, key)
            sent.append(Sent(key, (key, number), lane, place.queue_offset))
    settings = {"order": "key", "executor": "process", "concurrency": 2, "suspend": 0.05}
    with structlog.testing.capture_logs() as events:
        start_member(recorder=workers.handle, **settings)
        done = len(KEYS) * COUNT
        eventually(lambda: sum(c.ended is not None for c in diary.calls()) >= done, within=60)
    calls = diary.calls()
    times = Counter((call.key, call.number) for call in calls)
    assert {message for message, count in times.items() if count > 1} == {FATAL}
    assert times[FATAL] == 2
    verdict = judge(sent, [as_delivered(call) for call in calls])
    assert verdict.ok, verdict
    pids = {call.pid for call in calls}
    assert os.getpid() not in pids
    assert 2 <= len(pids) <= 3, "two side by side, and one in the place of the dead"
    died_in, again_in = (call.pid for call in calls if (call.key, call.number) == FATAL)
    assert died_in != again_in
    (died,) = [event for event in events if event["event"] == "worker.died"]
    assert (died["key"], died["exit_code"]) == (FATAL[0], -9)


def test_a_close_kills_what_hangs_so_that_the_queue_is_free(
    producer, topic, group, client, start_member, tmp_path
):
    """A thread could not be killed: its queue would stay locked."""
    diary = Diary(tmp_path / "diary")
    settings = {"order": "key", "executor": "process", "close_timeout": 0.5}
    member, _ = start_member(recorder=workers.handle, **settings)
    queue = producer.send(diary.message(topic, "a", 0, hang=True)).queue
    (call,) = eventually(diary.calls, within=20)
    member.close()
    with pytest.raises(ProcessLookupError):
        os.kill(call.pid, 0)
    free = lambda: client.brokers.lock_queues(group, queue.broker_name, [queue])  # noqa: E731
    eventually(free, within=10)
    assert client.brokers.query_offset(group, queue) == 0, "nothing of it counts"


def as_delivered(call):
    died = call.ended is None
    return Delivered(
        call.key,
        (call.key, call.number),
        (call.queue_id, call.key),
        call.offset,
        success=not died,
        started=call.started,
        ended=call.started if died else call.ended,
    )
