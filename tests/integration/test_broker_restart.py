"""A broker killed with -9, restarted and paused while members consume and a producer writes."""

import threading
import time

import pytest

from orderly import (
    Client,
    ConsumerConfig,
    ConsumeResult,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    ProducerConfig,
)
from orderly.testing import Delivered, EmbeddedBroker, Sent, judge
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(50)]


class Traffic:
    """A producer that never stops and two members; everything is recorded for the oracle."""

    def __init__(self, namesrv):
        self.sent, self.events = [], []
        self._stop = threading.Event()
        self._namesrv = namesrv
        self._writer = threading.Thread(target=self._write)

    def __enter__(self):
        settings = ConsumerConfig(consume_from="first", pull_retry=0.5)
        self.members = [
            OrderlyConsumer("group", self._handle, namesrv=self._namesrv, config=settings)
            for _ in range(2)
        ]
        for member in self.members:
            member.subscribe("orders").start()
        self._writer.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._writer.join()
        for member in self.members:
            member.close()

    def finish(self):
        """Stop writing and wait until every acknowledged message was delivered."""
        self._stop.set()
        self._writer.join()
        eventually(lambda: {s.id for s in self.sent} <= {e.id for e in list(self.events)}, 60)

    def _handle(self, messages, context):
        started = time.monotonic()
        for m in messages:
            self.events.append(
                Delivered(
                    m.sharding_key, m.message_id, m.queue.queue_id, m.queue_offset,
                    started=started, ended=time.monotonic(),
                )
            )  # fmt: skip
        return ConsumeResult.SUCCESS

    def _write(self):
        config = ProducerConfig(retries=20, retry_backoff=0.1)
        futures = []
        with OrderlyProducer(namesrv=self._namesrv, config=config) as producer:
            while not self._stop.wait(0.001):
                key = KEYS[len(futures) % len(KEYS)]
                message = Message("orders", b"x", sharding_key=key)
                futures.append((key, producer.submit(message)))
            for key, future in futures:
                result = future.result(60)
                queue, offset = result.queue.queue_id, result.queue_offset
                self.sent.append(Sent(key, result.message_id, queue, offset))


@pytest.fixture
def broker(orderly_broker, tmp_path):
    with EmbeddedBroker(directory=tmp_path / "broker") as broker:
        with Client(namesrv=broker.namesrv) as client:
            client.admin.create_topic("orders", 8)
        yield broker


def test_nothing_is_lost_or_reordered_by_a_broker_that_dies_and_one_that_hangs(broker):
    with Traffic(broker.namesrv) as traffic:
        eventually(lambda: len(traffic.events) > 1000, within=30)
        broker.kill_broker()
        broker.restart_broker()
        goal = len(traffic.events) + 2000
        eventually(lambda: len(traffic.events) > goal, within=60)
        broker.pause_broker()
        seen = len(traffic.events)
        paused = time.monotonic()
        eventually(lambda: time.monotonic() - paused > 4)
        broker.resume_broker()
        eventually(lambda: len(traffic.events) > seen + 2000, within=60)
        traffic.finish()
        verdict = judge(traffic.sent, list(traffic.events))
    assert verdict.ok, verdict
    assert verdict.sent > 5000
