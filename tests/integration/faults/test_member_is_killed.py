"""A member killed with -9 releases nothing; the broker frees its queues when the lease runs out."""

import time

import pytest

from orderly.config.consumer import BROKER_LEASE
from tests.support.leases import SHORT, leasing_broker
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    "lease", [SHORT, pytest.param(BROKER_LEASE, marks=pytest.mark.slow)], ids="{}-s".format
)
def test_the_heir_goes_on_after_one_lease_and_nothing_is_lost(
    lease, orderly_broker, closing, start_traffic
):
    broker = closing(leasing_broker(lease))
    traffic = start_traffic(broker, lease=lease, members=0, pause=0.01)
    heir, victim = [traffic.join_process() for _ in range(2)]
    eventually(lambda: traffic.settled([heir, victim]), within=30)
    traffic.goes_on(200)
    victim.kill()
    killed = time.monotonic()
    eventually(lambda: traffic.settled([heir]), within=lease + 10)
    waited = time.monotonic() - killed
    verdict, wrong_commits = traffic.verdict()
    assert waited > lease / 2, "the broker's lock was not respected"
    assert verdict.ok, verdict
    assert not wrong_commits
