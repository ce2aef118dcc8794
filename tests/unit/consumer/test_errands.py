"""Errands have a lane's turn without a worker, a permit or an awake lane; none is forgotten."""

import threading

import pytest

from orderly.clock import now
from orderly.consumer.errands import Errands
from orderly.ordering.lane import Turn
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack, Disposition
from tests.support.waiting import eventually


class Errand:
    """Notes in `ran` that it had its turn, and does `act` in it."""

    def __init__(self, ran, name, act=lambda: None):
        self.ran, self.name, self.act = ran, name, act

    def steps(self):
        self.ran.append(self.name)
        self.act()
        yield from ()


@pytest.fixture
def ran():
    return []


@pytest.fixture
def want(setting, ran):
    """Have an errand of a key wait for its turn; returns it."""

    def want(key, act=lambda: None, **how):
        errand = Errand(ran, key, act)
        setting.owned.want_turn(key, Turn(errand, errand=True, **how))
        return errand

    return want


def test_it_waits_for_no_worker_no_pause_and_no_suspension(setting, ran, want):
    setting.worker.pool.submit = None  # it has no threads
    setting.pulled("a", "b")
    setting.owned.finish(setting.take(), Disposition.PUT_BACK, now(), wait=3600.0)
    setting.owned.pause_key("b")
    setting.owned.pause()
    for key in "abc":
        want(key)
    setting.worker.ready(setting.held)
    assert ran == ["a", "b", "c"]
    assert setting.owned.messages.suspended == 1, "it waits on"
    assert setting.owned.messages.paused == 1


def test_it_waits_for_a_call_with_its_key_and_goes_before_the_next_message(setting, ran, want):
    setting.pulled("a", "a")

    def answer(message, context):
        if not ran:
            want("a")
            setting.worker.ready(setting.held)
            assert ran == [], "a handler runs"
        return Ack()

    setting.answer = answer
    setting.worker.ready(setting.held)
    assert [offset for offset, _ in setting.handled] == [0, 1]
    assert ran == ["a"]


def test_one_that_breaks_down_holds_up_neither_its_lane_nor_the_others(setting, ran, want):
    def fail():
        raise RuntimeError("made by the test")

    def take_along_and_fail():
        setting.owned.messages.take_along("b")
        fail()

    setting.pulled("a", "b")
    setting.owned.pause()
    want("a", fail)
    want("b", take_along_and_fail)
    want("c")
    setting.worker.ready(setting.held)
    setting.owned.resume(now())
    setting.answer = lambda *_: Ack()
    setting.worker.ready(setting.held)
    assert ran == ["a", "b", "c"]
    assert sorted(offset for offset, _ in setting.handled) == [0, 1]


def test_of_a_queue_that_is_given_up_none_begins(setting, ran, want):
    want("a")
    setting.owned.drop(Drop.REVOKED)
    setting.worker.ready(setting.held)
    assert ran == []
    assert setting.owned.idle


def test_of_a_queue_that_is_given_up_meanwhile_the_rebalancer_hears(setting, want, attention):
    want("a", lambda: setting.owned.drop(Drop.REVOKED))
    setting.worker.ready(setting.held)
    assert attention


def test_after_the_engine_closed_none_begins(setting, ran, want):
    setting.worker.pool.close = lambda: None
    setting.worker.close()
    want("a")
    setting.worker.ready(setting.held)
    assert ran == []


def test_one_that_comes_as_the_thread_ends_is_run(setting, ran, want):
    take = setting.owned.take_errand

    def as_it_looks(moment):
        batch = take(moment)
        if batch is None and ran == ["a"]:
            want("b")  # by somebody who sees that the thread still runs
        return batch

    setting.owned.take_errand = as_it_looks
    want("a")
    setting.worker.ready(setting.held)
    assert ran == ["a", "b"]


def test_where_the_system_has_no_thread_it_is_tried_again(setting, ran, want):
    begin, setting.worker.errands.begin = setting.worker.errands.begin, _no_thread
    want("a")
    setting.worker.ready(setting.held)
    assert ran == []
    setting.worker.errands.begin = begin
    setting.timers.ring()
    assert ran == ["a"]


def _no_thread(work):
    raise RuntimeError("can't start new thread")


def test_they_run_on_a_thread_that_ends_with_the_last(session, setting, ran, want):
    threads = []
    want("a", lambda: threads.append(threading.current_thread()))
    Errands(session, lambda held: None, lambda held, seconds: None).run(setting.held)
    eventually(lambda: threads and not threads[0].is_alive())
    assert threads[0].name == "orderly-errands-group"
