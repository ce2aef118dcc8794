"""Waiting for a condition, never for luck."""

import threading
import time
from functools import partial

from orderly import Client, ClientConfig, OrderlyConsumer, OrderlyProducer, ProducerConfig
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.send import SendMessage
from orderly.selectors import hash_mod

BUSY = 3  # so many times as long may everything take on a busy machine


def eventually(condition, within=30.0, every=0.005):
    """Return the first truthy value of `condition()`.

    It fails after `within` seconds, as a machine with nothing else to do counts them. Where a time
    is what is promised the test has to measure it.
    """
    deadline = time.monotonic() + BUSY * within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {BUSY * within} s: {condition}")
        time.sleep(every)
    return value


# --- inbox ----------------------------------------------------------------------------------------
# Collects what other threads report.


SOON = 30.0  # a deadline for what takes milliseconds


class Inbox:
    """A callback that keeps what it is given; `wait` blocks until there is enough."""

    def __init__(self):
        self.items = []
        self._changed = threading.Condition()

    def __call__(self, item):
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    def wait(self, count=1):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.items) >= count, SOON), self.items
        return self.items

    def one(self):
        (item,) = self.wait()
        return item


# --- visible --------------------------------------------------------------------------------------
# Waiting for what brokers have stored, but do not show yet.
#
# A send's reply comes before the message can be pulled or counted: some milliseconds, and longer
# on a busy machine. A broker shows messages in the order in which it stored them, whatever their
# queues are: where a marker shows, all that was stored before it does.


_MARKERS = "tests-markers"


def await_visible(client):
    """Wait until all that the client's brokers have stored by now can be seen."""
    if client.admin.create_topic(_MARKERS, 1, order=False):
        eventually(lambda: _MARKERS in client.admin.topics())
    for queue in client.routes.get(_MARKERS).write_queues():
        position = client.brokers.send_now(queue, _marker(queue)).queue_offset
        eventually(lambda q=queue, p=position: client.brokers.max_offset(q) > p)


def _marker(queue):
    header = SendMessage(
        producer_group="tests",
        topic=queue.topic,
        queue_id=queue.queue_id,
        born_timestamp=int(time.time() * 1000),
        properties="",
    )
    return request(header.code, to_ext(header), b"marker")


def await_visible_at(namesrv):
    """The same, for who has no client."""
    with patient_client(namesrv) as client:
        await_visible(client)


# --- patient --------------------------------------------------------------------------------------
# Clients of the tests themselves: what a test asks or sends a busy machine may take long over.
#
# Who is tested keeps its own time-outs, but for two: a consumer whose name server does not answer
# within 3 s does not start, and tells nothing of what it was started for; and where a test counts
# how often something is done, a dead letter or a parked message whose lock renewal is not answered
# within 1 s is tried again, by design.


PATIENCE = 30.0  # seconds


def patient_client(namesrv, **settings):
    """A client that waits for every answer, also to lock requests."""
    patience = {"request_timeout": PATIENCE, "connect_timeout": PATIENCE}
    config = ClientConfig(namesrv=namesrv, **patience, **settings)
    client = Client(config)
    brokers = client.brokers
    brokers.lock_queues = partial(brokers.lock_queues, timeout=PATIENCE)
    brokers.unlock_queues = partial(brokers.unlock_queues, timeout=PATIENCE)
    return client


def patient_consumer(*arguments, **more):
    """An OrderlyConsumer whose own client waits for every answer, but those to lock requests."""
    consumer = OrderlyConsumer(*arguments, **more)
    consumer._client._calls._timeout = PATIENCE
    return consumer


def patient_producer(namesrv="", *, client=None, selector=hash_mod, **settings):
    """A producer whose messages are not sent, and stored, once more because an answer is late.

    Args:
        namesrv: for a patient client of its own, closed with it.
        client: in its place.
        selector, settings: the producer's.
    """
    config = ProducerConfig(send_timeout=PATIENCE, **settings)
    own = client or patient_client(namesrv)
    producer = OrderlyProducer(client=own, config=config, selector=selector)
    producer._owns_client = client is None
    return producer
