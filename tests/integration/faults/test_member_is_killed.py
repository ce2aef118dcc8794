"""A member killed with -9 releases nothing; the broker frees its queues when the lease runs out."""

import contextlib
import time

import pytest

from orderly.config.consumer import BROKER_LEASE
from orderly.testing import judge
from tests.support.accounts import Accounts
from tests.support.brokers import SHORT, leasing_broker
from tests.support.consuming import send_numbers, unique
from tests.support.members import CONCURRENCY, MemberProcess, by_key, by_lane, judge_ownerships
from tests.support.topics import finished_ahead
from tests.support.traffic import KEYS
from tests.support.waiting import eventually, patient_client, patient_producer


@pytest.mark.parametrize(
    "lease",
    [
        pytest.param(SHORT, marks=pytest.mark.nightly),
        pytest.param(BROKER_LEASE, marks=pytest.mark.slow),
    ],
    ids="{}-s".format,
)
def test_the_heir_goes_on_after_one_lease_and_nothing_is_lost(
    lease, orderly_broker, closing, start_traffic
):
    broker = closing(leasing_broker(lease))
    traffic = start_traffic(broker, lease=lease, members=0, pause=0.01)
    heir, victim = [traffic.join_process() for _ in range(2)]
    eventually(lambda: traffic.settled([heir, victim]), within=30)
    traffic.goes_on(200)
    killed = time.monotonic()
    victim.kill()
    eventually(lambda: traffic.settled([heir]), within=lease + 40)
    waited = time.monotonic() - killed
    verdict, wrong_commits = traffic.verdict()
    assert waited > lease / 2, "the broker's lock was not respected"
    assert verdict.ok, verdict
    assert not wrong_commits


def test_what_lanes_had_finished_ahead_of_a_stuck_key_does_not_come_again(orderly_broker, closing):
    keys, topic, group = ["stuck", "a", "b", "c"], unique("topic"), unique("group")
    broker = closing(leasing_broker(SHORT))
    client = closing(patient_client(broker.namesrv))
    producer = closing(patient_producer(broker.namesrv))
    client.admin.create_topic(topic, 1)

    def join():
        options = ["--order=key", "--stuck=stuck"]
        member = MemberProcess(broker.namesrv, group, topic, lease=SHORT, more=options)
        closing(contextlib.closing(member))
        return member

    victim = join()
    eventually(lambda: victim.held, within=30)
    queue = send_numbers(producer, topic, keys, 50)[0].queue
    finished = {offset for offset in range(200) if offset % len(keys)}
    eventually(lambda: finished_ahead(client, group, queue) == finished, within=30, every=0.1)
    killed = time.monotonic()
    victim.kill()
    heir = join()
    eventually(lambda: heir.held, within=40 + SHORT)
    assert time.monotonic() - killed > SHORT / 2, "the broker's lock was not respected"
    send_numbers(producer, topic, keys, 5, first=50)
    new = {offset for offset in range(200, 220) if offset % len(keys)}
    eventually(lambda: {event.offset for event in heir.events} >= new)
    assert sorted(event.offset for event in heir.events) == sorted(new), "and nothing else"


@pytest.mark.nightly
def test_lanes_repeat_at_most_what_was_finished_since_the_last_record(
    proxied_broker, closing, start_traffic
):
    accounts = closing(Accounts(KEYS))
    accounts.frozen = frozenset(KEYS[::5])
    traffic = start_traffic(proxied_broker, members=0, pause=0.005)
    heir, victim = members = [traffic.join_process(more=by_key(accounts)) for _ in range(2)]
    eventually(lambda: traffic.settled(members), within=30)

    def figures():
        return judge_ownerships(members, CONCURRENCY)

    def of_victim(figure):
        return sum(getattr(ownership, figure) for ownership in figures().of(victim))

    eventually(lambda: of_victim("ahead") > 200, within=30, every=0.2)
    victim.kill()
    eventually(lambda: traffic.settled([heir]), within=SHORT + 40)
    accounts.frozen = frozenset()
    traffic.finish()
    assert not figures().faults
    assert of_victim("repeats") <= of_victim("fresh") + CONCURRENCY
    verdict = judge(by_lane(traffic.writer.sent), by_lane(traffic.deliveries()))
    assert verdict.ok, verdict
    assert not traffic.wrong_commits(), traffic.wrong_commits()
