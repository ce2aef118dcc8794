"""Half-open connections: what is written is taken, nothing comes back; one way or both."""

import time

import pytest

from tests.support.brokers import SHORT, Way


@pytest.mark.parametrize(
    ("ways", "seconds"),
    [
        pytest.param((Way.REPLY,), 2, marks=pytest.mark.nightly),
        pytest.param((Way.REQUEST,), SHORT + 2, marks=pytest.mark.nightly),
        (tuple(Way), SHORT + 2),
    ],
    ids=["replies", "requests-longer-than-the-lease", "both-longer-than-the-lease"],
)
def test_a_network_that_swallows_everything_for_a_while(traffic, proxy, ways, seconds):
    proxy.swallow(*ways)
    time.sleep(seconds)  # how long it lasts
    proxy.heal()
    traffic.goes_on(1000)
    traffic.ends_well()


@pytest.mark.nightly
def test_a_member_whose_connection_is_dead_opens_another_and_goes_on(traffic, proxy):
    proxy.freeze(traffic.consumers[0].client_id)
    traffic.ends_well(within=30)
