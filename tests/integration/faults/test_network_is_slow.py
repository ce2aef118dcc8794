"""A slow network, with delays and little room: nothing is lost, and nothing overtakes."""

import time

import pytest


def test_delays_and_a_narrow_line_only_slow_things_down(traffic, proxy):
    proxy.slow(delay=0.05, rate=100_000)
    time.sleep(5)  # how long it lasts
    proxy.heal()
    traffic.goes_on(500)
    traffic.ends_well()


@pytest.mark.nightly
def test_answers_that_come_after_their_time_out_are_bad_luck_not_data_loss(traffic, proxy):
    proxy.slow(delay=1.2)  # there and back: longer than a member waits for its answers
    time.sleep(6)
    proxy.heal()
    traffic.goes_on(500)
    traffic.ends_well()
