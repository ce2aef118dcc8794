"""The Java client's ordered consumer and ours in one group hand queues to each other."""

import contextlib
import itertools
import threading
import time
from collections import Counter

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from orderly.config.consumer import BROKER_LEASE
from orderly.testing import Delivered, Sent, judge
from tests.support.consuming import unique
from tests.support.java import ForeignMember, wall_clock
from tests.support.waiting import eventually, patient_producer

KEYS = [f"order-{i}" for i in range(40)]
ALL = {0, 1, 2, 3}
HANDOVER = 90.0  # seconds; Java looks again 20 s after it missed a notification
WORK = 0.001  # seconds a handler takes, so that two on one queue would be seen


class Ours:
    """A handler that records deliveries as the Java member does."""

    def __init__(self):
        self.deliveries = []
        self._lock = threading.Lock()

    def __call__(self, messages, context):
        started = wall_clock()
        time.sleep(WORK)
        ended = wall_clock()
        with self._lock:
            self.deliveries += [_delivered(message, started, ended) for message in messages]
        return ConsumeResult.SUCCESS


def _delivered(message, started, ended):
    return Delivered(
        key=message.sharding_key,
        id=(message.sharding_key, int(message.body)),
        queue=message.queue.queue_id,
        offset=message.queue_offset,
        started=started,
        ended=ended,
    )


class Traffic:
    """Sends key by key, all the time, while the block runs; `sent` says what was acknowledged."""

    PAUSE = 0.002  # seconds between sends: a queue is busy and yet never far behind

    def __init__(self, namesrv, topic):
        self.sent = []
        self._topic = topic
        self._producer = patient_producer(namesrv)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orderly-test-traffic", daemon=True)

    def __enter__(self):
        self._producer.start()
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self.stop()
        self._producer.close()

    def stop(self):
        """Send no more; all that was sent is acknowledged."""
        self._enough.set()
        self._thread.join()

    def _run(self):
        number = 0
        while not self._enough.is_set():
            for key in KEYS:
                self._send(key, number)
                self._enough.wait(self.PAUSE)
            number += 1

    def _send(self, key, number):
        message = Message(self._topic, str(number).encode(), sharding_key=key)
        stored = self._producer.send(message)
        self.sent.append(Sent(key, (key, number), stored.queue.queue_id, stored.queue_offset))


class Group:
    """One group on one topic: its members of both kinds, and what they handled together."""

    def __init__(self, namesrv, topic, command, closing):
        self.namesrv, self.topic, self.name = namesrv, topic, unique("group")
        self._command, self._closing = command, closing
        self.ours, self.java = Ours(), []

    def start_java(self):
        member = ForeignMember(self._command, self.namesrv, self.name, self.topic)
        self.java.append(member)
        return self._closing.enter_context(member)

    def start_ours(self):
        config = ConsumerConfig(consume_from="first")
        consumer = OrderlyConsumer(self.name, self.ours, namesrv=self.namesrv, config=config)
        return self._closing.enter_context(consumer.subscribe(self.topic))

    def all_deliveries(self):
        """What both kinds handled, in the order in which the handlers began."""
        lists = [self.ours.deliveries, *(member.deliveries for member in self.java)]
        return sorted(itertools.chain(*map(list, lists)), key=lambda d: (d.started, d.ended))


@pytest.fixture
def members(orderly_namesrv, orderly_topic, java_command):
    with contextlib.ExitStack() as closing:
        yield Group(orderly_namesrv, orderly_topic(queues=4), java_command, closing)


def until_shared(consumer, java):
    """Ours holds two queues, and Java delivers from exactly the other two."""
    eventually(lambda: len(consumer.assignment) == 2, within=HANDOVER)
    held = {queue.queue_id for queue in consumer.assignment}
    until_delivering(java, ALL - held)
    assert {queue.queue_id for queue in consumer.assignment} == held


def until_delivering(member, queues, within=HANDOVER):
    """From now on the member delivers, from these queues and no other."""
    seen = len(member.deliveries)
    eventually(lambda: {d.queue for d in member.deliveries[seen:]} >= queues, within=within)
    settled = wall_clock()  # what it handled before may be read from its output only now

    def since():
        return {d.queue for d in list(member.deliveries) if d.started > settled}

    eventually(lambda: since() >= queues, within=within)
    assert since() == queues


def until_all_handled(members, sent):
    eventually(lambda: {d.id for d in members.all_deliveries()} >= {s.id for s in sent}, 90, 0.1)


def repeats_after(deliveries, first_by):
    """Deliveries beyond the first of messages whose first delivery was by this member."""
    mine = {id(delivery) for delivery in first_by}
    first = {}
    for delivery in deliveries:
        first.setdefault(delivery.id, delivery)
    again = Counter(delivery.id for delivery in deliveries)
    return sum(again[key] - 1 for key, delivery in first.items() if id(delivery) in mine)


def test_a_java_member_and_ours_hand_queues_to_each_other_in_order(members):
    with Traffic(members.namesrv, members.topic) as traffic:
        first = members.start_java()
        until_delivering(first, ALL)
        ours = members.start_ours()
        until_shared(ours, first)
        first.stop()
        eventually(lambda: len(ours.assignment) == 4, within=HANDOVER)
        second = members.start_java()
        until_shared(ours, second)
        ours.close()
        until_delivering(second, ALL)
    until_all_handled(members, traffic.sent)
    deliveries = members.all_deliveries()
    verdict = judge(traffic.sent, deliveries)
    assert verdict.ok, verdict
    assert repeats_after(deliveries, members.ours.deliveries) == 0, "ours saves, then unlocks"


@pytest.mark.slow
@pytest.mark.nightly
def test_the_queues_of_a_killed_java_member_come_to_ours_after_one_lease(members):
    with Traffic(members.namesrv, members.topic) as traffic:
        victim = members.start_java()
        until_delivering(victim, ALL)
        ours = members.start_ours()
        until_shared(ours, victim)
        victim.kill()
        killed = time.monotonic()
        eventually(lambda: len(ours.assignment) == 4, within=BROKER_LEASE + 10, every=0.1)
        waited = time.monotonic() - killed
    assert waited > BROKER_LEASE / 2, "the broker's lock was not respected"
    until_all_handled(members, traffic.sent)
    verdict = judge(traffic.sent, members.all_deliveries())
    assert verdict.ok, verdict
