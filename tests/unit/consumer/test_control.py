"""Steering single queues: what is refused, what starts anew, and what a broker's reset does."""

from datetime import UTC, datetime

import pytest

from orderly.clock import now
from orderly.consumer.control import Control
from orderly.errors import LifecycleError
from orderly.model import MessageQueue
from orderly.ordering.owned_queue import Drop
from tests.support.messages import message

MOMENT = datetime(2013, 1, 1, tzinfo=UTC)


class Notes:
    """A puller and an engine that only note what they are to start."""

    def __init__(self):
        self.pulled, self.run, self.reopened = [], [], []

    def start(self, held):
        self.pulled.append(held.queue)

    def reopen(self, held):
        self.reopened.append(held.queue)

    def ready(self, held):
        if held.owned.request_run():
            self.run.append(held.queue)


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def control(rebalancer, session, notes, attention, cluster):
    cluster.search_offset = lambda queue, seconds: 4 if seconds == MOMENT.timestamp() else 10
    rebalancer.round()
    return Control(session, notes, notes.ready)


@pytest.fixture
def held(control, session):
    return session.held()[0]


def fill(held, count=3):
    held.owned.pull_gate(now())
    held.owned.pulled([message(n, queue=held.queue) for n in range(count)], count)


def test_a_seek_to_where_it_stands_is_nothing(control, held, attention):
    assert control.seek(held.queue, "first") == 0
    assert held.owned.dropped is None
    fill(held)
    assert control.seek(held.queue, "first") == 0
    assert held.owned.dropped is Drop.MOVED, "what is cached would come twice otherwise"
    assert attention == [1]


def test_a_queue_that_is_not_held_or_is_leaving_cannot_be_moved(control, held):
    with pytest.raises(LifecycleError, match="assignment"):
        control.seek(MessageQueue("orders", "broker-a", 99), 0)
    held.owned.drop(Drop.REVOKED)
    with pytest.raises(LifecycleError):
        control.seek(held.queue, "last")


def test_a_seek_to_where_it_stands_forgets_what_is_finished_ahead(control, held):
    held.owned.by_key, held.owned._finished = True, ((3, 6),)
    assert control.seek(held.queue, held.owned.offset) == held.owned.offset
    assert held.owned.dropped is Drop.MOVED
    assert held.owned.finished_ahead == ()


def test_a_queue_that_begins_to_leave_during_the_seek_is_not_moved(control, held, cluster):
    cluster.during["max"] = lambda: held.owned.drop(Drop.REVOKED)
    with pytest.raises(LifecycleError, match="is releasing"):
        control.seek(held.queue, "last")
    assert held.owned.offset == 0


def test_pausing_and_resuming_touches_the_chosen_only(control, session, notes):
    first, second, *_ = session.held()
    fill(first)
    assert first.owned.request_run()
    first.owned.begin_run()
    control.pause([first.queue, second.queue])
    assert first.owned.take(1, now()) is None, "the run that was claimed ends"
    control.resume([first.queue])
    assert (first.owned.paused, second.owned.paused) == (False, True)
    assert session.paused == {second.queue}
    assert (notes.run, notes.pulled) == ([first.queue], [first.queue])
    control.resume([second.queue])
    assert notes.run == [first.queue], "nothing is cached there"
    assert notes.pulled == [first.queue, second.queue]


def test_a_brokers_reset_moves_what_is_held(control, held, session, attention):
    fill(held)
    control.reset({held.queue: 99, MessageQueue("orders", "broker-a", 77): 5})
    assert (held.owned.dropped, held.owned.offset) == (Drop.OFFSET_ILLEGAL, 99)
    assert attention == [1]
    assert control.offsets("orders") == {h.queue: h.owned.offset for h in session.held()}
    assert control.offsets("other") == {}


def test_a_brokers_reset_goes_with_a_queue_that_is_being_given_up(control, held):
    held.owned.drop(Drop.CLOSING)
    control.reset({held.queue: 99})
    assert (held.owned.dropped, held.owned.unsaved(now())) == (Drop.CLOSING, 99)


def test_a_key_is_paused_in_each_queue_also_in_one_that_is_taken_later(
    control, session, hold, notes
):
    held = hold(MessageQueue("orders", "broker-a", 7), by_key=True)
    control.pause_key("a")
    later = hold(MessageQueue("orders", "broker-a", 8), by_key=True)
    for each in (held, later):
        each.owned.pull_gate(now())
        found = [message(0, "a"), message(1, "b")]
        assert each.owned.pulled(found, 2, keys=["a", "b"])
        assert each.owned.take(9, now()).key == "b"
        assert each.owned.take(9, now()) is None
    control.resume_key("a")
    assert session.paused_keys == set()
    assert notes.reopened == [held.queue, later.queue], "their bodies are asked for"
