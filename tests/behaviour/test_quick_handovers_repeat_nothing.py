"""However often queues change hands, nothing comes twice: the offset is saved before the unlock.

Java sends both one-way through different pools of the broker, and at shutdown unlocks first.
"""

import contextlib
import itertools
import threading
import time

import pytest

from orderly import Message
from orderly.client.broker import BrokerCalls
from orderly.testing.oracle import Delivered, Sent, judge
from tests.support.consuming import Group
from tests.support.waiting import eventually

KEYS = [f"order-{i}" for i in range(20)]
HANDOVERS = 5
NEVER = 3600  # only a handover saves


class Traffic:
    """Sends number after number to every key, on a thread of its own; `sent`: what was stored."""

    def __init__(self, producer, topic):
        self.sent = []
        self._producer, self._topic = producer, topic
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._stopped.set()
        self._thread.join()

    def _write(self):
        for number in itertools.count():
            for key in KEYS:
                message = Message(self._topic, str(number).encode(), sharding_key=key)
                stored = self._producer.send(message)
                place = stored.queue.queue_id, stored.queue_offset
                self.sent.append(Sent(key, (key, number), *place))
            if self._stopped.wait(0.02):
                return


@pytest.fixture
def unlocks(monkeypatch, topic):
    """For each unlock of a queue: its id and the offset that was stored when it was asked for."""
    noted = []
    unlock = BrokerCalls.unlock_queues

    def noting(self, group, broker_name, queues, *args):
        stored = [(q.queue_id, self.query_offset(group, q)) for q in queues if q.topic == topic]
        noted.extend((time.monotonic(), *of_queue) for of_queue in stored)
        unlock(self, group, broker_name, queues, *args)

    monkeypatch.setattr(BrokerCalls, "unlock_queues", noting)
    return noted


def test_rolling_all_members_over_under_traffic(
    unlocks, producer, topic, start_group, start_member
):
    group = start_group(commit_interval=NEVER)
    members, seen = list(group.consumers), group.seen
    with Traffic(producer, topic) as traffic:
        for _ in range(HANDOVERS):
            newcomer, _ = start_member(recorder=seen, commit_interval=NEVER)
            members.append(newcomer)
            eventually(lambda: Group(members, seen).settled(4), within=20)
            members.pop(0).close()
            eventually(lambda: Group(members, seen).settled(4), within=20)
    sent = traffic.sent
    with contextlib.suppress(AssertionError):  # the verdict says it better
        eventually(lambda: len(seen.deliveries) >= len(sent), within=20)
    calls = sorted(seen.deliveries, key=lambda d: d.started)
    delivered = [
        Delivered(d.key, (d.key, d.number), d.queue_id, d.offset, True, d.started, d.ended)
        for d in calls
    ]
    verdict = judge(sent, delivered)
    assert verdict.ok, verdict
    assert verdict.duplicates == 0, verdict
    assert len(sent) > HANDOVERS * len(KEYS), "there was traffic"
    for at, queue_id, stored in unlocks:
        done = [d.offset + 1 for d in calls if d.queue_id == queue_id and d.ended < at]
        assert stored == max(done, default=0), "saved before the unlock was asked for"
    assert len(unlocks) >= HANDOVERS * 4 // (len(members) + 1)
