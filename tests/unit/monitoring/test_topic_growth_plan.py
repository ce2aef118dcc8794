"""What becomes of a topic's settings, step by step; and what is not grown."""

from dataclasses import replace

import pytest

from orderly.errors import ConfigError
from orderly.monitoring.topic_growth import make_plan
from orderly.protocol.topic_config import TopicConfig

TWO = TopicConfig(
    name="orders", read_queues=2, write_queues=2, order=True, attributes={"message.type": "FIFO"}
)
BOTH = {"broker-b": TWO, "broker-a": TWO}


def test_it_is_closed_widened_and_opened_and_keeps_what_else_it_is():
    plan = make_plan("orders", 8, BOTH)
    assert plan.needed
    assert plan.closed == dict.fromkeys(BOTH, replace(TWO, perm=4))
    wide = replace(TWO, read_queues=8, write_queues=8)
    assert plan.widened == dict.fromkeys(BOTH, replace(wide, perm=4))
    assert plan.grown == dict.fromkeys(BOTH, wide)


def test_the_new_pin_is_in_the_order_in_which_producers_count():
    assert str(make_plan("orders", 8, BOTH).pin) == "broker-a:8;broker-b:8"


def test_a_topic_that_is_as_wanted_needs_nothing():
    assert not make_plan("orders", 2, BOTH).needed


@pytest.mark.parametrize(
    "left",
    [
        replace(TWO, perm=4),  # closed, and the run was killed
        replace(TWO, read_queues=8, write_queues=8, perm=4),
        replace(TWO, read_queues=8),
    ],
)
def test_what_a_killed_run_left_is_finished_by_the_next(left):
    plan = make_plan("orders", 8, {"broker-a": left})
    assert plan.needed
    assert plan.grown["broker-a"] == replace(TWO, read_queues=8, write_queues=8)


@pytest.mark.parametrize("wider", [replace(TWO, read_queues=4), replace(TWO, write_queues=4)])
def test_nothing_is_shrunk(wider):
    with pytest.raises(ConfigError, match="4 queues on broker broker-b, more than 3: only growing"):
        make_plan("orders", 3, BOTH | {"broker-b": wider})


def test_what_cannot_be_read_cannot_be_drained():
    with pytest.raises(ConfigError, match="may not be read on broker broker-a"):
        make_plan("orders", 8, {"broker-a": replace(TWO, perm=2)})


def test_an_order_configuration_is_not_touched():
    with pytest.raises(ConfigError, match=r"order configuration \(broker-a:2\)"):
        make_plan("orders", 8, BOTH, "broker-a:2")
