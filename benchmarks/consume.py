"""Ordered consumption of a backlog by a handler that does nothing, beside pull-and-decode."""

import itertools
import threading
import time

from benchmarks import floor
from benchmarks.setting import Setting, main
from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer

KEYS = 1000


def fill(setting: Setting) -> str:
    """A topic with the backlog."""
    topic, body = setting.topic(), b"x" * setting.size
    with OrderlyProducer(namesrv=setting.namesrv) as producer:
        for number in range(setting.count):
            producer.submit(Message(topic, body, sharding_key=f"key-{number % KEYS}"))
    return topic


def consume(setting: Setting, topic: str) -> float:
    """Seconds from the start of the consumer to the last message, in a new group."""
    done, count = threading.Event(), itertools.count(1)

    def handle(messages, context):
        if next(count) == setting.count:
            done.set()
        return ConsumeResult.SUCCESS

    consumer = OrderlyConsumer(
        f"bench-{time.time_ns():x}",
        handle,
        namesrv=setting.namesrv,
        config=ConsumerConfig(consume_from="first"),
    ).subscribe(topic)
    started = time.perf_counter()
    with consumer:
        assert done.wait(300), "the backlog was not consumed within 300 s"
        return time.perf_counter() - started


def measure(setting: Setting):
    topic = fill(setting)
    sides = {
        "floor_consume": lambda: floor.consume(setting, topic, setting.count),
        "consume": lambda: consume(setting, topic),
    }
    rates = {name: [] for name in sides}
    for _ in range(setting.rounds):
        for name, run in sides.items():
            rates[name].append(setting.count / run())
    return rates, {"consume_vs_floor": ("consume", "floor_consume")}


if __name__ == "__main__":
    main(measure, __doc__)
