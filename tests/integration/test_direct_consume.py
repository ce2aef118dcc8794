"""An administrator has a message consumed by hand, or asks for stacks: only where that is allowed.

RocketMQ's own tool asks: `mqadmin queryMsgByUniqueKey` with a group and a member.
"""

import threading

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from tests.support.consuming import unique
from tests.support.java import mqadmin
from tests.support.waiting import eventually, patient_client, patient_producer


class Handler:
    """Remembers what it handled; the message "slow" takes until `release` is set."""

    def __init__(self):
        self.bodies, self.most = [], 0
        self.release = threading.Event()
        self._running = 0
        self._lock = threading.Lock()

    def __call__(self, messages, context):
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
            self.bodies.append(messages[0].body)
        if messages[0].body == b"slow":
            self.release.wait(120)  # RocketMQ's tool takes seconds to start
        with self._lock:
            self._running -= 1
        return ConsumeResult.SUCCESS


class Setting:
    """A topic of one queue with one message handled, and the member that did it."""

    def __init__(self, namesrv, topic, **settings):
        self.namesrv, self.topic, self.group = namesrv, topic, unique("group")
        self.handler = Handler()
        config = ConsumerConfig(consume_from="first", commit_interval=0.05, **settings)
        self.own = patient_client(namesrv)
        self.member = OrderlyConsumer(self.group, self.handler, client=self.own, config=config)
        self.member.subscribe(topic)

    def send(self, body):
        with patient_producer(self.namesrv) as producer:
            return producer.send(Message(self.topic, body, sharding_key="a"))

    def consume_by_hand(self, sent):
        return mqadmin(
            *("queryMsgByUniqueKey", "-t", self.topic, "-i", sent.message_id),
            *("-g", self.group, "-d", self.member.client_id),
            namesrv=self.namesrv,
        )

    def offset(self, queue):
        with patient_client(self.namesrv) as client:
            return client.brokers.query_offset(self.group, queue)


@pytest.fixture
def start(orderly_namesrv, orderly_topic):
    members = []

    def start(**settings):
        setting = Setting(orderly_namesrv, orderly_topic(queues=1), **settings)
        members.append(setting)
        setting.member.start()
        return setting

    yield start
    for setting in members:
        setting.handler.release.set()
        setting.member.close()
        setting.own.close()


def test_by_default_it_is_refused(start):
    setting = start()
    sent = setting.send(b"first")
    eventually(lambda: setting.handler.bodies)
    with pytest.raises(AssertionError, match="allow_direct_consume"):
        setting.consume_by_hand(sent)
    assert setting.handler.bodies == [b"first"]


def test_it_waits_for_the_queues_handler_and_moves_no_offset(start):
    setting = start(allow_direct_consume=True)
    handler = setting.handler
    first = setting.send(b"first")
    eventually(lambda: setting.offset(first.queue) == 1)
    setting.send(b"slow")
    eventually(lambda: b"slow" in handler.bodies)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(setting.consume_by_hand(first)),
        name="orderly-test-asking",
        daemon=True,
    )
    asking.start()
    held = setting.member._session.find(first.queue)
    lanes = held.owned.messages
    eventually(lambda: any(lane.turns for lane in lanes.lanes), within=60)
    assert handler.bodies == [b"first", b"slow"], "never beside the handler"
    handler.release.set()
    asking.join(60)
    assert handler.bodies == [b"first", b"slow", b"first"]
    assert handler.most == 1
    assert "consumeResult=CR_SUCCESS" in answers[0]
    setting.send(b"next")
    eventually(lambda: setting.offset(first.queue) == 3)
    assert handler.bodies[3:] == [b"next"], "its cache is as it was"


@pytest.mark.parametrize("allowed", [False, True])
def test_stacks_are_shown_only_if_that_is_allowed(allowed, start):
    setting = start(allow_thread_dump=allowed)
    status = mqadmin(
        *("consumerStatus", "-g", setting.group, "-i", setting.member.client_id, "-s"),
        namesrv=setting.namesrv,
    )
    assert ("orderly-rebalance" in status) == allowed
