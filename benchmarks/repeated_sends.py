"""Rounds in which a broker stands still under traffic, so that sends are repeated; do handlers see?

    python -m benchmarks.repeated_sends --case silent --rounds 5    # 14 s, a patient producer
    python -m benchmarks.repeated_sends --case default --rounds 5   # 75 s, a producer by default

Two groups consume the topic, one by key and one by queue, each with two members. In every round
one member of each is closed and another started, right after the broker goes on. Then the whole
topic is read.

Exit code 0: no handler got a copy of a message that stands behind another copy of it, and all
first copies were handled; 1 otherwise. What a member had not committed when its lock ran out comes
again, from the same offsets: that is counted.
"""

import argparse
import json
import sys
import threading
import time
from collections import defaultdict

from orderly import Ack, Client, ConsumerConfig, Message, OrderlyConsumer, OrderlyProducer
from orderly.client.broker import PullQuery
from orderly.config import ProducerConfig
from orderly.protocol.heartbeat import Subscription
from orderly.testing import EmbeddedBroker
from tests.support.waiting import eventually

TOPIC, QUEUES, KEYS = "orders", 32, 96
ORDERS = ("key", "queue")
PATIENT = ProducerConfig(send_timeout=3, retries=60, retry_backoff=0.05, delivery_timeout=120)


class Members:
    """A group's members, and which places their handler got: (queue id, offset), in order."""

    def __init__(self, namesrv, order):
        self._namesrv, self._order = namesrv, order
        self._lock = threading.Lock()
        self.got = []
        self.skipped = 0
        self.live = [self._start(), self._start()]

    def _start(self):
        config = ConsumerConfig(consume_from="first", order=self._order, rebalance_interval=2)
        group = f"group-by-{self._order}"
        return OrderlyConsumer(
            group, {TOPIC: self._handle}, namesrv=self._namesrv, config=config
        ).start()

    def _handle(self, messages, context):
        with self._lock:
            self.got += [(m.queue.queue_id, m.queue_offset) for m in messages]
        return Ack()

    def hand_over(self):
        """Close one member and start another."""
        self._close(self.live.pop(0))
        self.live.append(self._start())

    def close(self):
        while self.live:
            self._close(self.live.pop())

    def _close(self, member):
        member.close()
        self.skipped += member.statistics(TOPIC).repeats_skipped


class Traffic:
    """Sends numbered messages of all keys."""

    def __init__(self, producer, size):
        self._producer, self._size = producer, size
        self._number = 0
        self.futures = []

    def one_of_each(self):
        text = b"%-*d" % (self._size, self._number)
        sent = [
            self._producer.submit(Message(TOPIC, text, sharding_key=f"k{k}")) for k in range(KEYS)
        ]
        self.futures += sent
        self._number += 1
        return sent

    def go_on(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.one_of_each()
            time.sleep(0.05)

    def settled(self):
        """How many failed, once the end of all is known."""
        return sum(future.exception(120) is not None for future in self.futures)


def silent(broker, traffic):
    """The broker stands still for longer than a connection's silence."""
    broker.pause_broker()
    traffic.one_of_each()
    time.sleep(14)
    for _ in range(5):
        traffic.one_of_each()
    broker.resume_broker()


def default(broker, traffic):
    """And for longer than failed keys are held."""
    broker.pause_broker()
    for future in traffic.one_of_each():
        future.exception(100)
    time.sleep(61)
    traffic.one_of_each()
    time.sleep(1)
    broker.resume_broker()


CASES = {"silent": (silent, PATIENT, 20_000), "default": (default, ProducerConfig(), 1_000)}


def stored(client):
    """What the topic has: of each key (place, number), in order."""
    found = defaultdict(list)
    for queue in client.routes.get(TOPIC).read_queues():
        at, end = client.brokers.min_offset(queue), client.brokers.max_offset(queue)
        while at < end:
            query = PullQuery("onlooker", queue, at, 32, Subscription(TOPIC), 0.0)
            result = client.brokers.pull_now(query)
            for message in result.messages:
                place = (queue.queue_id, message.queue_offset)
                found[message.sharding_key].append((place, int(message.body)))
            at = result.next_offset
    return found


def behind(messages):
    """How many of them stand behind one with a higher number."""
    highest, count = -1, 0
    for _, number in messages:
        count += number < highest
        highest = max(highest, number)
    return count


def verdict(group, firsts):
    """What the members of a group did."""
    return {
        "copies handled": sum(place not in firsts for place in group.got),
        "copies skipped": group.skipped,
        "came again": len(group.got) - len(set(group.got)),
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", choices=CASES, default="silent")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    case, config, size = CASES[options.case]
    with EmbeddedBroker() as broker, Client(namesrv=broker.namesrv) as client:
        client.admin.create_topic(TOPIC, QUEUES)
        groups = {order: Members(broker.namesrv, order) for order in ORDERS}
        with OrderlyProducer(namesrv=broker.namesrv, config=config) as producer:
            traffic = Traffic(producer, size)
            traffic.go_on(0.5)
            for round_ in range(options.rounds):
                case(broker, traffic)
                movers = [threading.Thread(target=group.hand_over) for group in groups.values()]
                for mover in movers:
                    mover.start()
                traffic.go_on(3)
                for mover in movers:
                    mover.join()
                print(f"round {round_}: {traffic.settled()} sends failed", file=sys.stderr)
            failed = traffic.settled()
        log = stored(client)
        firsts = set()
        for messages in log.values():
            firsts |= set({number: place for place, number in reversed(messages)}.values())
        for group in groups.values():
            eventually(lambda group=group: firsts <= set(group.got), 120)
            group.close()
    found = {
        "case": options.case,
        "rounds": options.rounds,
        "sends": len(traffic.futures),
        "failed": failed,
        "stored": sum(map(len, log.values())),
        "copies": sum(map(len, log.values())) - len(firsts),
        "copies behind later ones": sum(map(behind, log.values())),
        **{f"by {order}": verdict(group, firsts) for order, group in groups.items()},
    }
    print(json.dumps(found, indent=2))
    return int(any(found[f"by {order}"]["copies handled"] for order in ORDERS))


if __name__ == "__main__":
    sys.exit(main())
