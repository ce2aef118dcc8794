"""A member killed with -9 releases nothing; the broker frees its queues when the lease runs out."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from orderly import ConsumerConfig, OrderlyConsumer, OrderlyProducer
from orderly.ordering.lease import BROKER_LEASE
from tests.support.consuming import Recorder, first_deliveries, send_numbers, unique
from tests.support.waiting import eventually

MEMBER = Path(__file__).parents[1] / "support" / "member.py"
KEYS = [f"k{i}" for i in range(12)]


@pytest.mark.slow
def test_the_heir_goes_on_after_one_lease_and_nothing_is_lost(orderly_namesrv, orderly_topic):
    topic, group = orderly_topic(queues=4), unique("group")
    seen = Recorder()
    heir = OrderlyConsumer(
        group, seen, namesrv=orderly_namesrv, config=ConsumerConfig(consume_from="first")
    )
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        send_numbers(producer, topic, KEYS, 3)
        command = [sys.executable, str(MEMBER), orderly_namesrv, group, topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            delivered = [victim.stdout.readline().split() for _ in range(36)]
            victim.kill()
        killed = time.monotonic()
        send_numbers(producer, topic, KEYS, 3, first=3)
        with heir.subscribe(topic):
            eventually(lambda: len(heir.assignment) == 4, within=BROKER_LEASE + 10, every=0.1)
            waited = time.monotonic() - killed
            eventually(lambda: all(5 in seen.numbers(key) for key in KEYS), within=20)
    assert waited > BROKER_LEASE / 2, "the broker's lock was not respected"
    for key in KEYS:
        numbers = [int(number) for k, number in delivered if k == key] + seen.numbers(key)
        assert first_deliveries(numbers) == list(range(6)), key
