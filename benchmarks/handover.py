"""How long a group's queues rest when their owner closes, or is killed; by queue and by key.

    python -m benchmarks.handover [--json]       # 5 minutes; two of them wait for the true lease
    python -m benchmarks.handover --quick        # one round of each, only with the short lease

Two members share four queues with steady traffic. One leaves; the time runs from `close()`, or from
the kill, until the other has handled a message of every queue that was the leaver's.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import random
import sys
import time

from benchmarks.lane_backlog import new_group
from benchmarks.rounds import spread
from orderly import Client, ConsumeResult, OrderlyConsumer
from orderly.config.consumer import BROKER_LEASE
from tests.support.brokers import SHORT, client_config, consumer_config, leasing_broker
from tests.support.traffic import Writer
from tests.support.waiting import eventually

QUEUES = 4
PAUSE = 0.002  # seconds between two messages sent
ORDERS = ("queue", "key")
SETTLED_WITHIN = 60.0


class Member:
    """A member of the group in this process.

    Attributes:
        handled: queue id -> when it first handled a message of it since it was last cleared.
    """

    def __init__(self, namesrv, group, topic, lease, order):
        self.handled = {}
        self._client = Client(client_config(lease, namesrv))
        config = consumer_config(lease, order=order)
        self._consumer = OrderlyConsumer(group, self._handle, client=self._client, config=config)
        self._consumer.subscribe(topic).start()

    @property
    def queues(self):
        """Ids of the queues it holds."""
        return {queue.queue_id for queue in self._consumer.assignment}

    @property
    def busy(self):
        """Whether it holds its half of the queues, and has handled messages of each."""
        return len(self.queues) == QUEUES // 2 and self.queues <= self.handled.keys()

    def close(self):
        self._consumer.close()
        self._client.close()

    def _handle(self, messages, context):
        self.handled.setdefault(messages[0].queue.queue_id, time.monotonic())
        return ConsumeResult.SUCCESS


def be_member(busy, *given):
    """A member in a process of its own, until that is killed; sets the event `busy`."""
    member = Member(*given)
    eventually(lambda: member.busy, SETTLED_WITHIN, every=0.05)
    busy.set()
    time.sleep(SETTLED_WITHIN + BROKER_LEASE)  # at most: nothing of a failed run stays behind


def closed(stays, *given):
    """Seconds that a clean close of the other member costs."""
    leaves = Member(*given)
    eventually(lambda: stays.busy and leaves.busy, SETTLED_WITHIN)
    queues = leaves.queues
    began = _forget(stays)
    leaves.close()
    return _resumed(stays, queues, began, SETTLED_WITHIN)


def killed(stays, *given):
    """Seconds that a kill of the other member's process costs."""
    context = multiprocessing.get_context("spawn")
    busy = context.Event()
    process = context.Process(target=be_member, args=(busy, *given), daemon=True)
    process.start()
    assert busy.wait(SETTLED_WITHIN), "the member to be killed did not get its queues"
    eventually(lambda: stays.busy, SETTLED_WITHIN)
    queues = set(range(QUEUES)) - stays.queues
    time.sleep(random.uniform(0, 1))  # not always at the same moment of a lease
    began = _forget(stays)
    process.kill()
    process.join()
    return _resumed(stays, queues, began, BROKER_LEASE + SETTLED_WITHIN)


def _forget(member):
    member.handled.clear()
    return time.monotonic()


def _resumed(stays, queues, began, within):
    eventually(lambda: queues <= stays.handled.keys(), within)
    return max(stays.handled[queue] for queue in queues) - began


def measure(broker, lease, leave, rounds):
    """Rounds of `leave` in both orders, alternating; returns order -> seconds."""
    seconds = {order: [] for order in ORDERS}
    for number in range(rounds):
        for order in ORDERS:
            seconds[order].append(_round(broker.namesrv, lease, leave, order))
            told = f"{leave.__name__}, lease {lease:g} s, round {number + 1}, by {order}"
            print(f"{told}: {seconds[order][-1]:.3f} s", file=sys.stderr, flush=True)
    return seconds


def _round(namesrv, lease, leave, order):
    group = topic = new_group()
    with contextlib.ExitStack() as stack:
        with Client(namesrv=namesrv) as client:
            client.admin.create_topic(topic, QUEUES)
        writer = Writer(namesrv, topic, PAUSE)
        writer.start()
        stack.callback(writer.finish)
        given = (namesrv, group, topic, lease, order)
        stays = Member(*given)
        stack.callback(stays.close)
        return leave(stays, *given)


def run(rounds, quick):
    """All of it; returns kind -> order -> seconds."""
    measured = {}
    with leasing_broker(SHORT) as broker:
        measured[f"killed, lease {SHORT:g} s"] = measure(broker, SHORT, killed, rounds)
    with leasing_broker(BROKER_LEASE) as broker:
        measured["closed"] = measure(broker, BROKER_LEASE, closed, rounds)
        if not quick:
            measured[f"killed, lease {BROKER_LEASE:g} s"] = measure(broker, BROKER_LEASE, killed, 1)
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=5, help="one only with the true lease")
    parser.add_argument("--quick", action="store_true", help="one round: does it work?")
    given = parser.parse_args()
    measured = run(1 if given.quick else given.rounds, given.quick)
    report = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "seconds": {
            f"{kind}, by {order}": {**spread(values), "rounds": len(values)}
            for kind, orders in measured.items()
            for order, values in orders.items()
        },
    }
    print(json.dumps(report, indent=2) if given.json else _as_text(report))


def _as_text(report):
    lines = [f"{'seconds':36}{'median':>10}{'min':>10}{'max':>10}{'rounds':>10}"]
    for name, s in report["seconds"].items():
        lines.append(
            f"{name:36}{s['median']:10.3f}{s['min']:10.3f}{s['max']:10.3f}{s['rounds']:10}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
