"""The real librocketmq beside our own client: one placement, one group, one order."""

import itertools
import time

import pytest

from orderly import Ack, ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer
from orderly.native import NativeConsumer, listener
from orderly.testing.oracle import Delivered, Sent, judge
from tests.support.consuming import unique

KEYS = [f"order-{number}" for number in range(8)]
real = pytest.mark.parametrize("world", ["real"], indirect=True)


@pytest.fixture
def ours(world):
    with OrderlyProducer(namesrv=world.namesrv) as producer:
        yield producer


class Diary:
    """What members of either driver were given."""

    def __init__(self):
        self.kept = []
        self.of_native = 0

    def by_native(self, message, _attempt):
        self.of_native += 1
        self._keep(message)
        return Ack()

    def by_ours(self, messages, _context):
        for message in messages:
            self._keep(message)
        return ConsumeResult.SUCCESS

    def _keep(self, message):
        started = time.monotonic()
        place = message.queue.queue_id, message.queue_offset
        self.kept.append(
            Delivered(message.sharding_key, message.body, *place, True, started, time.monotonic())
        )


@real
def test_both_producers_put_a_key_into_one_queue(world, ours):
    topic, producers = world.topic(4), itertools.cycle([world.producer(), ours])
    for number in range(6):
        for key in KEYS[:-1]:  # an odd number, so that a key goes to both
            sent = Message(topic, f"{key}/{number}".encode(), sharding_key=key)
            next(producers).send(sent)
    queues = [[body.decode() for body, _ in found] for found in world.stored(topic).values()]
    for key in KEYS[:-1]:
        [mine] = [found for bodies in queues if (found := [b for b in bodies if key in b])]
        assert mine == [f"{key}/{number}" for number in range(6)]


@real
def test_members_of_both_drivers_share_the_queues_and_keep_the_order(world, ours, soon):
    topic, group, diary, sent = world.topic(4), unique("group"), Diary(), []

    def send():
        for key in KEYS:
            body = f"{key}/{len(sent)}".encode()
            stored = ours.send(Message(topic, body, sharding_key=key))
            sent.append(Sent(key, body, stored.queue.queue_id, stored.queue_offset))

    config = ConsumerConfig(consume_from="first", rebalance_interval=2)
    consumer = OrderlyConsumer(group, diary.by_ours, namesrv=world.namesrv, config=config)
    with consumer.subscribe(topic):
        soon(lambda: len(consumer.assignment) == 4)
        send()
        soon(lambda: len(diary.kept) >= len(sent))
        made = listener(diary.by_native, library=world.library)
        native = NativeConsumer(group, made, namesrv=world.namesrv, library=world.library)
        world.enter_context(native.subscribe(topic))
        soon(lambda: send() or (len(consumer.assignment) == 2 and diary.of_native))
        send()
        soon(lambda: {each.id for each in diary.kept} == {each.id for each in sent})
    verdict = judge(sent, diary.kept)
    assert verdict.ok, verdict
