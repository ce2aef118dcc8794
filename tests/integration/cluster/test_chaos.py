"""Brokers of a cluster are killed, paused and cut off under traffic; one oracle judges all of it.

`make chaos ROUNDS=50 SEED=7` draws more rounds; a failure's text has the faults that came before.
"""

import os
import random
import time

import pytest

from orderly.testing import judge
from tests.support.brokers import SHORT, place
from tests.support.consuming import unique
from tests.support.traffic import Traffic
from tests.support.waiting import patient_client

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "4"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))


def killed(cluster, broker, chance):
    """As by `kill -9`, for a shorter or longer time than the trust in a lock."""
    broker.kill()
    time.sleep(chance.uniform(0, SHORT / 2))
    broker.restart()


def paused(cluster, broker, chance):
    """For a shorter or longer time than the lease."""
    broker.pause()
    time.sleep(chance.uniform(1, SHORT * 1.25))
    broker.resume()


def cut_off(cluster, broker, chance):
    """Its connections are reset, and none accepted for a while."""
    proxy = cluster.proxies[broker.name, broker.broker_id]
    proxy.refuse()
    proxy.cut()
    time.sleep(chance.uniform(0, SHORT / 2))
    proxy.heal()


def drawn(brokers, rounds, chance):
    """Every kind of fault before one comes again, and so for the brokers."""
    faults = []
    for kinds in (killed, paused, cut_off), brokers:
        many = [kind for _ in range(rounds) for kind in chance.sample(kinds, len(kinds))]
        faults.append(many[:rounds])
    return list(zip(*faults, strict=True))


@pytest.mark.nightly
@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_nothing_is_lost_or_reordered(cluster, closing):
    chance, topic, told = random.Random(SEED), unique("topic"), []
    with patient_client(cluster.namesrv) as client:
        client.admin.create_topic(topic, 4)
    traffic = closing(
        Traffic(None, cluster.namesrv, SHORT, unique("group"), topic, place=place, pause=0.003)
    )
    for fault, broker in drawn(cluster.cluster.brokers, ROUNDS, chance):
        traffic.goes_on(300, within=90)
        told.append(f"{broker.name} {broker.broker_id} {fault.__name__}")
        print(time.strftime("%H:%M:%S"), told[-1])  # shown with a failure of whatever kind
        fault(cluster, broker, chance)
    traffic.goes_on(1000, within=90)
    traffic.finish(within=90)
    verdict = traffic.judged()
    assert (verdict.lost, verdict.disorder, verdict.unknown) == (0, 0, 0), (told, verdict)
    # A broker that died has forgotten its locks, and may have older offsets: it grants a queue
    # to another member before its owner is refused. Whoever was not told so has all in order.
    unhurt = [record for record in traffic.writer.sent if record.queue not in traffic.lost]
    events = [event for event in traffic.deliveries() if event.queue not in traffic.lost]
    assert judge(unhurt, events).ok, (told, judge(unhurt, events))
