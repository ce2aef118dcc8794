"""What ten thousand keys that wait cost the others of their queue, with default settings.

As in `lane_latency` two groups consume one topic side by side, each in a process of its own. In one
of them WAITING keys wait, one message each: they asked to wait for long, or fail each second. In
the other one they are done. Then messages of 100 other keys come at an even pace.
"""

import multiprocessing
import statistics
import threading
import time
from concurrent.futures import ProcessPoolExecutor

from benchmarks.lane_backlog import TIMEOUT, new_group
from benchmarks.lane_latency import PACE, WARM_SECONDS, WORK_SECONDS, clock, send_evenly
from benchmarks.rounds import Part, progress
from orderly import Ack, ConsumerConfig, Fail, Message, OrderlyConsumer, OrderlyProducer, Suspend
from orderly.ordering.owned_queue import OwnedQueue
from tests.support.waiting import eventually

WAITING = 10_000  # keys
BACKOFF = 1.0  # seconds

SIDES = {"ten_thousand_wait": Suspend(3600), "ten_thousand_fail": Fail("down"), "none_waits": Ack()}


class Counter:
    """Counts from any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self.value = 0

    def tick(self):
        with self._lock:
            self.value += 1


def handler(latencies, tries, answer):
    """Times the keys that go on; those that wait get `answer`."""

    def handle(messages, context):
        message = messages[0]
        if message.sharding_key.startswith("waits"):
            tries.tick()
            return answer
        time.sleep(WORK_SECONDS)
        latencies.append(clock() - float(message.body))
        return Ack()

    return handle


def count_pulls_of_bodies(pulls):
    """Count each request for bodies that were let go."""
    gate = OwnedQueue.refill_gate

    def counted(self, now):
        asked = gate(self, now)
        if asked is not None:
            pulls.tick()
        return asked

    OwnedQueue.refill_gate = counted


def side(namesrv, topic, answer, begin, count):
    """A consumer's process: p99 in milliseconds of `count` messages, and pulls a try meanwhile."""
    latencies, tries, pulls = [], Counter(), Counter()
    count_pulls_of_bodies(pulls)
    consumer = OrderlyConsumer(
        new_group(),
        handler(latencies, tries, answer),
        namesrv=namesrv,
        config=ConsumerConfig(order="key", consume_from="first", max_suspend=BACKOFF),
    )
    with consumer.subscribe(topic):
        eventually(lambda: tries.value >= WAITING, TIMEOUT, every=0.1)
        begin.wait(TIMEOUT)
        tries.value = pulls.value = 0
        eventually(lambda: len(latencies) >= count, TIMEOUT, every=0.1)
        share = pulls.value / max(1, tries.value)
    warm = int(WARM_SECONDS * PACE)
    return statistics.quantiles(latencies[warm:], n=100)[98] * 1000, share, tries.value


def pair(setting, answer, samples):
    """What two groups side by side measured: one with that answer, one in which all is done."""
    topic = setting.topic(1)
    numbers = int(WARM_SECONDS * PACE) + samples
    context = multiprocessing.get_context("spawn")
    with (
        OrderlyProducer(namesrv=setting.namesrv) as producer,
        context.Manager() as manager,
        ProcessPoolExecutor(2, mp_context=context) as pool,
    ):
        for number in range(WAITING):
            producer.submit(Message(topic, b"waits", sharding_key=f"waits-{number}"))
        begin = manager.Barrier(3)
        measured = [
            pool.submit(side, setting.namesrv, topic, each, begin, numbers)
            for each in (answer, Ack())
        ]
        begin.wait(TIMEOUT)
        send_evenly(producer, topic, numbers)
        return [each.result(TIMEOUT) for each in measured]


def waiting(setting, share):
    """Keys that asked to wait, keys that fail each second, and the measurement's own noise."""
    samples = int(20_000 * share)
    values, pulls = {}, {"pulls of bodies, by tries of keys that fail": []}
    for number in range(setting.rounds):
        for name, answer in SIDES.items():
            (here, share_of_pulls, tries), (beside, _, _) = pair(setting, answer, samples)
            values.setdefault(name, []).append(here)
            values.setdefault(f"beside {name}", []).append(beside)
            if name == "ten_thousand_fail":
                pulls["pulls of bodies, by tries of keys that fail"].append(share_of_pulls)
            told = (
                f"{here:.2f} beside {beside:.2f} ms; {tries} tries, {share_of_pulls:.3f} pulls each"
            )
            progress(f"waiting, round {number + 1}, {name}: {told}")
    ratios = {
        "other_keys_p99_while_10000_wait": ("ten_thousand_wait", "beside ten_thousand_wait"),
        "other_keys_p99_while_10000_fail": ("ten_thousand_fail", "beside ten_thousand_fail"),
        "p99_noise_beside_10000": ("none_waits", "beside none_waits"),
    }
    title = f"99th percentile of other keys beside {WAITING:,}, {PACE} messages/s, 1 ms each"
    return [
        Part("waiting", title, "ms", values, ratios),
        Part("waiting_pulls", f"keys that fail, again after {BACKOFF:g} s", "a try", pulls, {}),
    ]
