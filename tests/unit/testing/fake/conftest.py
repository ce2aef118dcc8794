"""A cluster as a pure machine, driven by hand, with a clock of its own."""

import pytest

from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import reply_to, request
from orderly.protocol.heartbeat import ConsumerData, Heartbeat, Subscription, encode_heartbeat
from orderly.protocol.locks import decode_locked, lock_request
from orderly.protocol.properties import encode_properties
from orderly.protocol.pull import PullMessage
from orderly.protocol.send import SendMessage
from orderly.testing.fake.cluster import NAME_SERVER, FakeCluster

START = 1_700_000_001.0  # seconds; between two looks at expired pulls


class Driver:
    """Sends requests to a FakeCluster; what it sends on each connection is kept in `sent`."""

    def __init__(self, brokers):
        self.cluster = FakeCluster({name: f"127.0.0.1:{i}" for i, name in enumerate(brokers, 1)})
        self.now = START
        self.sent = {}
        self._servers = {}

    def connect(self, number, server="broker-a"):
        self.cluster.connected(number, server, f"127.0.0.1:{4000 + number}")
        self._servers[number] = server
        self.sent[number] = []

    def ask(self, header, body=b"", *, on=1):
        return self.raw(header.code, to_ext(header), body, on=on)

    def raw(self, code, ext=None, body=b"", *, on=1, oneway=False):
        """The reply to a request; None if there is none."""
        if on not in self._servers:
            self.connect(on)
        command = request(code, ext, body, oneway=oneway)
        command.request_id = 77
        before = len(self.sent[on])
        self._note(self.cluster.handle(on, command, self.now))
        replies = [c for c in self.sent[on][before:] if c.is_response]
        return replies[-1] if replies else None

    def answer(self, command, body=b"", *, on):
        """Answer a request that the cluster sent on a connection."""
        self._note(self.cluster.handle(on, reply_to(command, body=body), self.now))

    def hang_up(self, number):
        del self._servers[number]
        self._note(self.cluster.disconnected(number))

    def tick(self, seconds=0.0):
        self.now += seconds
        self._note(self.cluster.tick(self.now))

    def take(self, number, code=None):
        """What was sent on a connection since the last time."""
        taken, self.sent[number] = self.sent[number], []
        return [c for c in taken if code is None or (not c.is_response and c.code == code)]

    def _note(self, outgoing):
        for out in outgoing:
            self.sent[out.connection_id].append(out.command)

    # --- requests that many tests need ---------------------------------------------------------

    def send(self, body=b"x", *, topic="orders", queue_id=0, on=1, **properties):
        header = SendMessage(
            producer_group="p",
            topic=topic,
            queue_id=queue_id,
            born_timestamp=1,
            properties=encode_properties(properties),
        )
        return self.ask(header, body, on=on)

    def pull(self, offset=0, *, on=1, suspend=0.0, subscription="*", group="g", **fields):
        header = PullMessage(
            **{"consumer_group": group, "topic": "orders", "queue_id": 0} | fields,
            queue_offset=offset,
            sys_flag=6 if suspend else 4,
            suspend_timeout_millis=round(suspend * 1000),
            subscription=subscription,
        )
        return self.ask(header, on=on)

    def lock(self, client_id, *numbers, on=1, broker="broker-a", group="g"):
        """Lock queues; returns the ids of those granted."""
        queues = [MessageQueue("orders", broker, number) for number in numbers]
        body = lock_request(group, client_id, queues)
        reply = self.raw(RequestCode.LOCK_BATCH_MQ, body=body, on=on)
        return sorted(queue.queue_id for queue in decode_locked(reply.body))

    def heartbeat(self, client_id="c1", *topics, on=1, group="g"):
        data = tuple(Subscription(topic, version=1) for topic in topics or ("orders",))
        beat = Heartbeat(client_id, consumers=(ConsumerData(group, data),))
        return self.raw(RequestCode.HEART_BEAT, body=encode_heartbeat(beat), on=on)


@pytest.fixture
def new_driver():
    return lambda *brokers: Driver(brokers)


@pytest.fixture
def driver():
    """One broker with topic "orders" of 4 queues."""
    driver = Driver(["broker-a"])
    driver.cluster.create_topic("orders", 4)
    driver.connect(9, NAME_SERVER)
    return driver
