"""Ordered sends: one by one and submitted, beside the raw socket's one by one."""

import time

from benchmarks import floor
from benchmarks.setting import Setting, main
from orderly import Message, OrderlyProducer

KEYS = 1000


def one_by_one(setting: Setting, topic: str, body: bytes) -> float:
    with OrderlyProducer(namesrv=setting.namesrv) as producer:
        producer.queues(topic)
        started = time.perf_counter()
        for number in range(setting.count):
            producer.send(Message(topic, body, sharding_key=f"key-{number % KEYS}"))
        return time.perf_counter() - started


def submitted(setting: Setting, topic: str, body: bytes) -> float:
    with OrderlyProducer(namesrv=setting.namesrv) as producer:
        producer.queues(topic)
        started = time.perf_counter()
        futures = [
            producer.submit(Message(topic, body, sharding_key=f"key-{number % KEYS}"))
            for number in range(setting.count)
        ]
        for future in futures:
            future.result()
        return time.perf_counter() - started


def measure(setting: Setting):
    body = b"x" * setting.size
    topic = setting.topic()
    sides = {
        "floor_send": lambda: floor.send(setting, topic, setting.count, body),
        "send": lambda: one_by_one(setting, topic, body),
        "submit": lambda: submitted(setting, topic, body),
    }
    rates = {name: [] for name in sides}
    for _ in range(setting.rounds):
        for name, run in sides.items():
            rates[name].append(setting.count / run())
    return rates, {
        "send_vs_floor": ("send", "floor_send"),
        "submit_vs_floor": ("submit", "floor_send"),
    }


if __name__ == "__main__":
    main(measure, __doc__)
