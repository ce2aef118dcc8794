"""A queue that is taken in a crash loop: what the log says, and what its owner is careful about."""

import pytest

from orderly.consumer.owning.taking import Taker
from orderly.model import MessageQueue
from orderly.ordering.crashes.crashes import NO_CRASHES, Crashes
from orderly.ordering.handover import Begin
from orderly.ordering.state.fence import Fence
from orderly.ordering.state.inheritance import Inheritance
from orderly.protocol.heartbeat import Subscription

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def take(session, monkeypatch):
    """Take the queue with these crashes on record; returns it."""

    def take(crashes, start=5, end=30):
        found = Inheritance(start, Fence(start), Begin(start), crashes=crashes, end=end)
        monkeypatch.setattr(Taker, "_inherit", lambda self, queue, asked_at: (found, asked_at))
        Taker(session, lambda held: None, lambda: None).take((QUEUE,), Subscription("orders"))
        (held,) = session.held()
        return held

    return take


def test_a_loop_and_whom_it_points_at_are_warned_of(take, caplog):
    held = take(Crashes(3, ((7, 1), (9, 2))))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 3
    assert "crash_loop.begins" in warnings[0]
    assert "deaths=3 window=[5, 30]" in warnings[0]
    assert "message.suspected" in warnings[1]
    assert "offset=7" in warnings[1]
    assert "deaths=2" in warnings[2]
    assert (held.owned.suspects.on, held.owned.suspects.condemned) == (True, {9: 2})


@pytest.mark.parametrize("crashes", [NO_CRASHES, Crashes(1)])
def test_without_a_loop_nothing_is_said(crashes, take, caplog):
    assert not take(crashes).owned.suspects.careful
    assert "crash_loop" not in caplog.text


def test_a_loop_with_nothing_unfinished_is_not_worth_a_word(take, caplog):
    assert not take(Crashes(4), start=30).owned.suspects.on
    assert "crash_loop" not in caplog.text
