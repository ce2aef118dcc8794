"""Connections reset again and again, and refused for a while."""

import time

import pytest

from tests.support.waiting import eventually


def test_connections_that_are_reset_cost_nothing_but_repeats(traffic, proxy):
    for _ in range(5):
        proxy.cut()
        traffic.goes_on(300)
    traffic.ends_well()


@pytest.mark.nightly
def test_a_broker_that_refuses_connections_for_longer_than_the_trust(traffic, proxy):
    proxy.refuse()
    proxy.cut()
    refused = time.monotonic()
    eventually(lambda: time.monotonic() - refused > 6)
    proxy.heal()
    traffic.goes_on(2000)
    traffic.ends_well()
