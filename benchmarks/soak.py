"""Hours in minutes: much traffic through several members, while memory and threads are watched.

    python -m benchmarks.soak                            # 10 minutes and 1,000,000 messages
    python -m benchmarks.soak --minutes 1 --messages 50000
    python -m benchmarks.soak --order key --handler async --messages 300000

One process holds the producer and the members; the broker is an embedded one. By key one key is
stuck until all else is handled, and a hot one fails now and then. Exit code 0: every message was
delivered, in its key's order, and memory and threads are flat: their median over the
last third of the run is at most 5 % and 2 MiB (0 threads) above that over the second third. 1
otherwise. Memory is read from /proc, so Linux only.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from benchmarks.soak_ledger import Ledger
from orderly import (
    Client,
    ConsumerConfig,
    Message,
    MessageQueue,
    OrderlyConsumer,
    OrderlyProducer,
)
from orderly.protocol.state_record import encode_record
from orderly.testing import EmbeddedBroker
from tests.support.topics import records

QUEUES = 8
GROUP, TOPIC = "soak", "orders"
ALLOWED_GROWTH, ALLOWED_MIB = 1.05, 2.0


def send(producer, ledger, given, samples):
    """Send at an even pace until both goals are reached; samples as it goes. Returns how many."""
    started, sent, failed = time.monotonic(), 0, []
    rate = given.messages / (given.minutes * 60)
    end = started + given.minutes * 60
    due = started
    while sent < given.messages or time.monotonic() < end:
        key, number = ledger.next_message(sent)
        future = producer.submit(Message(TOPIC, b"%d" % number, sharding_key=key))
        future.add_done_callback(lambda f: f.exception() and failed.append(f.exception()))
        sent += 1
        if time.monotonic() >= due:
            due += given.every
            samples.append(sample(started))
            show(samples[-1], sent, ledger)
        time.sleep(max(0.0, started + sent / rate - time.monotonic()))
    if failed:
        raise failed[0]
    return sent


def sample(started):
    """Seconds since the start, MiB of memory, threads: of this process, now."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return time.monotonic() - started, resident / 2**20, threading.active_count()


def show(last, sent, ledger):
    seconds, mib, threads = last
    text = f"{seconds:6.0f} s {sent:10,} sent {ledger.delivered:10,} delivered"
    print(f"{text} {mib:7.1f} MiB {threads:4} threads", file=sys.stderr)


def thirds(samples, column):
    """Medians of the second and the last third."""
    size = len(samples) // 3
    values = [row[column] for row in samples]
    return statistics.median(values[size : 2 * size]), statistics.median(values[2 * size :])


def run(given):
    """The whole run; returns the report."""
    by_key = given.order == "key"
    ledger, samples = Ledger(by_key=by_key), []
    handle = ledger.handle_async if given.handler == "async" else ledger.handle
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(java_options=["-XX:TieredStopAtLevel=4"]))
        client = stack.enter_context(Client(namesrv=broker.namesrv))
        client.admin.create_topic(TOPIC, QUEUES)
        for _ in range(given.members):
            config = ConsumerConfig(consume_from="first", order=given.order)
            member = OrderlyConsumer(GROUP, handle, namesrv=broker.namesrv, config=config)
            stack.enter_context(member.subscribe(TOPIC))
        started = time.monotonic()
        with OrderlyProducer(namesrv=broker.namesrv) as producer:
            sent = send(producer, ledger, given, samples)
        wait(lambda: not ledger.behind)
        seconds = time.monotonic() - started
        kept = state_records(client, seconds) if by_key else {}
        ledger.stuck = None
        wait(lambda: not ledger.missing)
    return report(ledger, samples, sent, seconds, given) | kept


def wait(done):
    """Wait until it is done; if it never is, the report says so."""
    patience = time.monotonic() + 60
    while not done() and time.monotonic() < patience:
        time.sleep(0.1)


def state_records(client, seconds):
    """How much was put on record: figures of the state topic."""
    sizes = [
        len(encode_record(record))
        for number in range(QUEUES)
        for _, record in records(client, GROUP, MessageQueue(TOPIC, "broker-a", number))
    ]
    return {
        "state_records": len(sizes),
        "state_records_a_minute": round(len(sizes) / seconds * 60, 1),
        "state_bytes_a_minute": round(sum(sizes) / seconds * 60),
        "state_record_bytes_max": max(sizes),
    }


def report(ledger, samples, sent, seconds, given):
    memory, threads = thirds(samples, 1), thirds(samples, 2)
    flat = memory[1] <= memory[0] * ALLOWED_GROWTH + ALLOWED_MIB and threads[1] <= threads[0]
    lost = ledger.missing
    return {
        "ok": flat and not lost and not ledger.order.inversions,
        "minutes": round(seconds / 60, 1),
        "order": given.order,
        "handler": given.handler,
        "members": given.members,
        "sent": sent,
        "delivered": ledger.delivered,
        "lost": lost,
        "repeats": ledger.order.repeats,
        "disorder": ledger.order.inversions,
        "failures": ledger.failures,
        "flat": flat,
        "mib_second_third": round(memory[0], 1),
        "mib_last_third": round(memory[1], 1),
        "threads_second_third": threads[0],
        "threads_last_third": threads[1],
        "samples": len(samples),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="at least so long")
    parser.add_argument("--messages", type=int, default=1_000_000, help="at least so many")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--order", choices=("queue", "key"), default="queue")
    parser.add_argument("--handler", choices=("sync", "async"), default="sync")
    given = parser.parse_args()
    if given.minutes * 60 / given.every < 9:
        parser.error("too few samples to judge: a longer run (--minutes) or closer ones (--every)")
    result = run(given)
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["ok"] else 1)


if __name__ == "__main__":
    main()
