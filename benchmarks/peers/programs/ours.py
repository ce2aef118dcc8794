"""Our side: `python -m benchmarks.peers.programs.ours WORK ARGUMENT…`, see the functions."""

import itertools
import json
import sys
import threading
import time
from dataclasses import replace

from benchmarks.peers.programs.meter import TIMEOUT, Meter, body, key, tell, zipf
from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer
from orderly.client import Client

FIRST = ConsumerConfig(consume_from="first")


def consume(namesrv, group, topic, count, warm, order="queue"):  # noqa: PLR0917 - a command line
    """Work a backlog off in order, with a handler that does nothing."""
    meter = Meter(int(count), int(warm))

    def handle(messages, context):
        meter.tick()
        return ConsumeResult.SUCCESS

    config = replace(FIRST, order=order)
    with OrderlyConsumer(group, handle, namesrv=namesrv, config=config).subscribe(topic):
        tell(**meter.result())


def member(namesrv, group, topic, queues):
    """One of several: joins paused, tells its queues, is told their messages, and consumes them.

    Stays in the group until its standard input ends, so that the others keep their queues.
    """
    meters = []

    def handle(messages, context):
        meters[0].tick()
        return ConsumeResult.SUCCESS

    consumer = OrderlyConsumer(group, handle, namesrv=namesrv, config=FIRST).subscribe(topic)
    with Client(namesrv=namesrv) as client:
        consumer.pause(client.admin.topic_stats(topic))
    with consumer:
        deadline = time.monotonic() + TIMEOUT
        while len(consumer.assignment) != int(queues):
            assert time.monotonic() < deadline, f"holds {len(consumer.assignment)} of {queues}"
            time.sleep(0.05)
        print(json.dumps({"queues": [q.queue_id for q in consumer.assignment]}), flush=True)
        count = int(sys.stdin.readline())
        meters.append(Meter(count, count // 10))
        consumer.resume()
        tell(**meters[0].result())
        sys.stdin.read()


def send(namesrv, topic, count, warm, size, only_key=""):  # noqa: PLR0917 - a command line
    """Messages of many keys, or of only one, each acknowledged before the next is sent."""
    meter, text = Meter(int(count), int(warm)), body(int(size)).encode()
    with OrderlyProducer(namesrv=namesrv) as producer:
        for number in range(int(count)):
            producer.send(Message(topic, text, sharding_key=only_key or key(number)))
            meter.tick()
    tell(**meter.result())


def submit(namesrv, topic, count, warm, size, only_key=""):  # noqa: PLR0917
    """Messages of many keys, or of only one, without waiting for each: batches in order."""
    text = body(int(size)).encode()
    _submit(namesrv, topic, count, warm, lambda number: (text, only_key or key(number)))


def numbered(namesrv, topic, count):
    """Submit bodies that count up, for whoever checks their order."""
    _submit(namesrv, topic, count, 1, lambda number: (b"%d" % number, key(number)))


def _submit(namesrv, topic, count, warm, content):
    meter = Meter(int(count), int(warm))

    def acknowledged(future):
        future.result()  # a failure is not counted
        meter.tick()

    with OrderlyProducer(namesrv=namesrv) as producer:
        for number in range(int(count)):
            text, sharding_key = content(number)
            message = Message(topic, text, sharding_key=sharding_key)
            producer.submit(message).add_done_callback(acknowledged)
        tell(**meter.result())


def latency(namesrv, group, topic, count, warm, size, rate):  # noqa: PLR0917
    """Send at an even pace and consume in this process: nanoseconds from each send to its handler.

    The pace is kept by the clock: a late message does not delay the next one's time.
    """
    total, text = int(count), body(int(size)).encode()
    arrived = []
    done = threading.Event()

    def handle(messages, context):
        now = time.monotonic_ns()
        arrived.extend(now - int(message.properties["sent"]) for message in messages)
        if len(arrived) == total:
            done.set()
        return ConsumeResult.SUCCESS

    consumer = OrderlyConsumer(group, handle, namesrv=namesrv, config=FIRST).subscribe(topic)
    with consumer, OrderlyProducer(namesrv=namesrv) as producer:
        start, cpu = time.monotonic(), 0.0
        for number in range(total):
            time.sleep(max(0.0, start + number / float(rate) - time.monotonic()))
            if number == int(warm):
                cpu = time.process_time()
            sent = {"sent": str(time.monotonic_ns())}
            producer.send(Message(topic, text, sharding_key=key(number), properties=sent))
        seconds = time.monotonic() - start
        assert done.wait(TIMEOUT), f"{len(arrived)} of {total} messages arrived"
        cpu = time.process_time() - cpu
    tell(
        latencies_ns=arrived[int(warm) :],
        messages=total - int(warm),
        cpu_seconds=cpu,
        sent_rate=total / seconds,
    )


def load(namesrv, group, topic, count, warm, size, rate, wait, order):  # noqa: PLR0917
    """Submit Zipf-distributed keys at an even pace, and consume them with a handler that waits.

    Tells the nanoseconds from the moment each message was due to its handler: a sender that falls
    behind makes its messages late, too. Fails if a key's messages come out of order.

    Args:
        wait: milliseconds of the handler.
        order: of the consumer.
    """
    total, pause, text = int(count), 1e9 / float(rate), body(int(size)).encode()
    keys, due, latencies, latest = zipf(total), [0] * total, [0] * total, {}
    arrived, done, inversions = itertools.count(1), threading.Event(), []

    def handle(messages, context):
        now = time.monotonic_ns()
        (message,) = messages
        index = int(message.properties["index"])
        if latest.get(message.sharding_key, -1) >= index:
            inversions.append(index)
        latest[message.sharding_key] = index
        latencies[index] = now - due[index]
        if next(arrived) == total:
            done.set()
        time.sleep(float(wait) / 1e3)
        return ConsumeResult.SUCCESS

    config = replace(FIRST, order=order)
    consumer = OrderlyConsumer(group, handle, namesrv=namesrv, config=config).subscribe(topic)
    with consumer, OrderlyProducer(namesrv=namesrv) as producer:
        start, cpu = time.monotonic_ns(), 0.0
        due[:] = [start + int(number * pause) for number in range(total)]
        for number, named in enumerate(keys):
            time.sleep(max(0, due[number] - time.monotonic_ns()) / 1e9)
            if number == int(warm):
                cpu = time.process_time()
            index = {"index": str(number)}
            producer.submit(Message(topic, text, sharding_key=f"key-{named}", properties=index))
        assert done.wait(TIMEOUT), f"after {next(arrived) - 1} of {total} messages none came"
        cpu = time.process_time() - cpu
    assert not inversions, f"{len(inversions)} messages came before an earlier one of their key"
    tell(
        latencies_ns=latencies[int(warm) :],
        messages=total - int(warm),
        cpu_seconds=cpu,
        inversions=0,
    )


if __name__ == "__main__":
    {work.__name__: work for work in (consume, member, send, submit, numbered, latency, load)}[
        sys.argv[1]
    ](*sys.argv[2:])
