"""Servers start again, on other ports, where somebody took a port meanwhile; and only there."""

import pytest

from orderly.errors import EmbeddedBrokerError
from orderly.testing import BrokerStartFailed
from orderly.testing.ports import on_free_ports

TAKEN = "Bind for 127.0.0.1:1 failed: port is already allocated"


def started(*failures, ours=True):
    """What happens in a start whose first tries fail so."""
    seen, coming = [], iter(failures)

    def start():
        seen.append("start")
        if failure := next(coming, None):
            raise failure

    try:
        on_free_ports(start, lambda: seen.append("undo"), ours=ours)
    except EmbeddedBrokerError as error:
        seen.append(str(error))
    return seen


@pytest.mark.parametrize(
    "text",
    [TAKEN, "listen tcp4 127.0.0.1:1: bind: address already in use", "Address already in use"],
)
def test_a_port_that_was_taken_meanwhile_is_replaced(text):
    assert started(BrokerStartFailed(text)) == ["start", "undo", "start"]


def test_a_third_start_is_the_last():
    tries = ["start", "undo"] * 3
    assert started(*[BrokerStartFailed(TAKEN)] * 5) == [*tries, TAKEN]


def test_a_port_that_somebody_chose_is_not_replaced():
    assert started(BrokerStartFailed(TAKEN), ours=False) == ["start", "undo", TAKEN]


def test_another_failure_is_told_and_undone():
    assert started(BrokerStartFailed("no space left")) == ["start", "undo", "no space left"]
