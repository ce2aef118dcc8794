"""The backlog of one queue with 100 keys, and how fast a consumer works it off by its own clock.

The first WARM messages are not timed: starting, locking and compiling are not what is compared.
"""

import itertools
import threading
import time

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer

KEYS = 100
WARM = 100  # messages
TIMEOUT = 300.0


def new_group():
    """The name of a group that has consumed nothing yet."""
    return f"bench-{time.time_ns():x}"


def key(number):
    """The sharding key of that message: neighbours have different ones."""
    return f"key-{number % KEYS}"


def fill(setting, count):
    """Make a topic of one queue with so many messages; returns its name."""
    topic, body = setting.topic(1), b"x" * setting.size
    with OrderlyProducer(namesrv=setting.namesrv) as producer:
        for number in range(count):
            producer.submit(Message(topic, body, sharding_key=key(number)))
    return topic


class Meter:
    """Counts finished messages, from any thread, and times all but the first WARM.

    Args:
        count: the message at which the clock stops.

    Attributes:
        cpu: microseconds this process computed for each message, its other threads' work included.
    """

    def __init__(self, count):
        self._count = count
        self._numbers = itertools.count(1)
        self._done = threading.Event()
        self._started = self._ended = self.cpu = 0.0

    def tick(self):
        """One message more is finished."""
        number = next(self._numbers)
        if number == WARM:
            self._started, self.cpu = time.perf_counter(), time.process_time()
        elif number == self._count:
            self._ended = time.perf_counter()
            self.cpu = (time.process_time() - self.cpu) * 1e6 / (self._count - WARM)
            self._done.set()

    def rate(self):
        """Wait for the last message; returns messages per second."""
        assert self._done.wait(TIMEOUT), f"not consumed within {TIMEOUT:g} s"
        return (self._count - WARM) / (self._ended - self._started)


def drain(setting, topic, handler, meter, hooks=None, **config):
    """Consume in a new group until the meter has what it wants; returns its rate.

    Args:
        handler: calls `meter.tick`, unless `hooks` do.
        config: of the consumer.
    """
    consumer = OrderlyConsumer(
        new_group(),
        handler,
        namesrv=setting.namesrv,
        config=ConsumerConfig(consume_from="first", **config),
        hooks=hooks,
    )
    with consumer.subscribe(topic):
        return meter.rate()


def noop(meter):
    """A handler that does nothing but count."""

    def handle(messages, context):
        meter.tick()
        return ConsumeResult.SUCCESS

    return handle


def async_noop(meter):
    """The same as a coroutine."""

    async def handle(messages, context):
        meter.tick()
        return ConsumeResult.SUCCESS

    return handle
