"""A broker stopped (SIGSTOP) under traffic, for a shorter and a longer time than the lease."""

import time

import pytest

from tests.support.brokers import SHORT, leasing_broker


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(3, marks=pytest.mark.nightly), SHORT + 4],
    ids=["shorter", "longer"],
)
def test_nothing_is_lost_or_reordered(orderly_broker, closing, start_traffic, seconds):
    broker = closing(leasing_broker(SHORT))
    traffic = start_traffic(broker)
    traffic.goes_on(1000)
    broker.pause_broker()
    time.sleep(seconds)  # how long it hangs
    broker.resume_broker()
    traffic.goes_on(2000, within=60)
    traffic.ends_well()
