"""What one failing key costs the others: their 99th percentile beside that without any failure.

Two groups consume the same topic at the same time, each in a process of its own: in one of them a
key fails, in the other nothing does. So what else goes on in the machine and the broker slows both,
and the ratio of two groups without failures shows what is left of it. Messages of 100 keys come at
an even pace and each takes a handler 1 ms; time runs from the send to the end of the handler.
Before the pace begins, the key that will fail has a backlog larger than a queue may hold in memory:
it has been failing for long.
"""

import multiprocessing
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from benchmarks.lane_backlog import TIMEOUT, key, new_group
from benchmarks.rounds import Part
from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer
from tests.support.waiting import eventually

FAILING = key(0)
STUCK = 2_000  # messages of that key that nobody could handle yet
PACE = 500  # messages a second
WARM_SECONDS = 5.0
WORK_SECONDS = 0.001


def succeeds():
    return ConsumeResult.SUCCESS


def raises():
    raise ConnectionError("the one account whose database is down")


def suspends():
    return ConsumeResult.SUSPEND


ANSWERS = {"one_raises": raises, "one_suspends": suspends, "none_fails": succeeds}


def clock():
    """Seconds of a clock that all processes of this machine share."""
    return time.monotonic_ns() / 1e9


def send_evenly(producer, topic, count):
    """Send at PACE; each message says when it was sent."""
    begun = clock()
    for number in range(count):
        time.sleep(max(0.0, begun + number / PACE - clock()))
        producer.submit(Message(topic, repr(clock()).encode(), sharding_key=key(number)))


def recorder(latencies, answer):
    """A handler that times every key but FAILING, which gets `answer()`."""

    def handle(messages, context):
        message = messages[0]
        if message.sharding_key == FAILING:
            return answer()
        time.sleep(WORK_SECONDS)
        latencies.append(clock() - float(message.body))
        return ConsumeResult.SUCCESS

    return handle


def p99_of_others(namesrv, topic, answer, warm, count):
    """A consumer's process: milliseconds, of `count` messages without the first `warm`."""
    latencies = []
    consumer = OrderlyConsumer(
        new_group(),
        recorder(latencies, answer),
        namesrv=namesrv,
        config=ConsumerConfig(order="key", consume_from="first"),
    )
    with consumer.subscribe(topic):
        eventually(lambda: len(latencies) >= count, TIMEOUT, every=0.1)
    return statistics.quantiles(latencies[warm:], n=100)[98] * 1000


def pair(setting, answer, samples):
    """The 99th percentiles of two groups side by side: one with that answer, one without."""
    topic = setting.topic(1)
    numbers = int(WARM_SECONDS * PACE) + samples
    others = sum(key(number) != FAILING for number in range(numbers))
    context = multiprocessing.get_context("spawn")
    with (
        OrderlyProducer(namesrv=setting.namesrv) as producer,
        ProcessPoolExecutor(2, mp_context=context) as pool,
    ):
        for _ in range(STUCK):
            producer.submit(Message(topic, b"stuck", sharding_key=FAILING))
        given = (int(WARM_SECONDS * PACE), others)
        measured = [
            pool.submit(p99_of_others, setting.namesrv, topic, each, *given)
            for each in (answer, succeeds)
        ]
        send_evenly(producer, topic, numbers)
        return [each.result(TIMEOUT) for each in measured]


def p99(setting, share):
    """A key that raises, one that asks to wait, and the measurement's own noise."""
    samples = int(20_500 * share)  # 20,000 without the failing key's, and some
    values = {}
    pair(setting, succeeds, samples // 5)  # not counted: the broker's compiler is still busy
    for number in range(setting.rounds):
        for name, answer in ANSWERS.items():
            here, beside = pair(setting, answer, samples)
            values.setdefault(name, []).append(here)
            values.setdefault(f"beside {name}", []).append(beside)
            told = f"p99, round {number + 1}, {name}: {here:.2f} beside {beside:.2f} ms"
            print(told, file=sys.stderr, flush=True)
    ratios = {
        "other_keys_p99_while_one_fails": ("one_raises", "beside one_raises"),
        "other_keys_p99_while_one_suspends": ("one_suspends", "beside one_suspends"),
        "p99_noise": ("none_fails", "beside none_fails"),
    }
    title = f"99th percentile of the other keys, {PACE} messages/s, 1 ms of waiting each"
    return [Part("p99", title, "ms", values, ratios)]
