"""What no interruption can split: shielded calls, waits, timers, locks that are let go."""

import contextvars
import threading
from concurrent.futures import CancelledError, Future

import pytest

from orderly import interruptions
from orderly.client.background import Periodic, Schedule
from orderly.consumer.session import QueueLock
from orderly.interruptions import Bell, Latch, Shielded, let_go, shielded
from orderly.model import MessageQueue, SendResult
from orderly.producer.future import SendFuture
from tests.support.interruptions import Alarm, at_each_step, interrupted
from tests.support.waiting import eventually

LONG = 60.0
STORED = SendResult(MessageQueue("orders", "broker-a", 0), 7, "id", "offset-id")


def elsewhere(function, *arguments):
    """What a function returns on another thread."""
    outcome = Future()
    threading.Thread(target=lambda: outcome.set_result(function(*arguments)), daemon=True).start()
    return outcome.result(LONG)


# --- calls on a thread of their own


def test_a_shielded_call_returns_and_raises_as_the_work_does():
    assert shielded(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        shielded(lambda: 1 / 0)


def test_it_sees_the_callers_context_and_runs_on_a_thread_of_the_library():
    variable = contextvars.ContextVar("variable")
    variable.set("seen")
    name = shielded(lambda: (variable.get(), threading.current_thread().name))
    assert name == ("seen", "orderly-shielded")
    assert shielded(lambda: shielded(threading.current_thread)).name == "orderly-shielded"


def test_an_interruption_ends_the_wait_and_never_the_work():
    begun, done = [], []

    def work():
        begun.append(1)
        done.append(1)

    at_each_step(lambda _: shielded(work), lambda *_: None)
    eventually(lambda: len(begun) == len(done) > 10)


def test_what_was_begun_is_undone_and_what_failed_is_not():
    states, undone = [], []

    def call(step):
        starting = Shielded(lambda: states.append(step))
        try:
            starting.result()
        except BaseException:
            starting.undo(lambda: undone.append(step))
            raise

    last = at_each_step(call, lambda *_: None)
    eventually(lambda: set(undone) == set(states) - {last})
    failing = Shielded(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.result()
    failing.undo(lambda: undone.append("failed"))
    assert "failed" not in undone


def test_where_no_thread_can_be_started_it_runs_at_once(monkeypatch):
    def none_left(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    assert shielded(lambda: 7) == 7


# --- waiting


def test_a_latch_lets_all_pass_once_it_is_set():
    latch = Latch()
    assert not latch.wait(0.01)
    threading.Timer(0.02, latch.set).start()
    assert latch.wait(LONG)
    assert latch.wait(0)
    assert latch.is_set()


def test_one_who_is_interrupted_while_waiting_is_in_nobodys_way():
    for step in range(1, 80):
        bell, here = Bell(), []

        def wait(bell=bell, here=here):
            bell.wait_for(lambda: here, 0.001)

        interrupted(wait, step, Alarm)
        waiting = Future()
        threading.Thread(
            target=lambda b=bell, h=here, w=waiting: w.set_result(b.wait_for(lambda: h, LONG)),
            daemon=True,
        ).start()
        here.append("now")
        elsewhere(bell.ring)
        assert waiting.result(LONG)


def test_who_has_waited_in_vain_leaves_nothing_behind():
    bell = Bell()
    for _ in range(3):
        assert not bell.wait_for(lambda: False, 0.001)
    assert not bell.asleep


def test_it_looks_again_without_a_ring(monkeypatch):
    monkeypatch.setattr(interruptions, "LOOK", 0.01)
    bell, here = Bell(), []
    threading.Timer(0.02, here.append, ["now"]).start()
    assert bell.wait_for(lambda: here, LONG)


# --- timers


def test_a_timer_that_is_interrupted_stops_no_other():
    schedule = Schedule("interrupted")
    ran = []

    def check(step, _place):
        elsewhere(schedule.after, 0, lambda: ran.append(step))
        eventually(lambda: step in ran)

    try:
        at_each_step(lambda _: schedule.after(0, lambda: None), check)
    finally:
        schedule.close()


def test_a_wake_that_is_interrupted_stops_no_other():
    rounds = []
    periodic = Periodic("interrupted", 3600.0, lambda: rounds.append(1), first_after=3600.0)
    periodic.start()

    def check(_step, _place):
        before = len(rounds)
        elsewhere(periodic.wake)
        eventually(lambda: len(rounds) > before)

    try:
        at_each_step(lambda _: periodic.wake(), check)
    finally:
        assert periodic.stop(LONG)


# --- locks


def test_what_is_held_is_let_go_however_often_it_was_taken():
    lock = threading.RLock()
    lock.acquire()
    lock.acquire()
    let_go(lock)
    assert elsewhere(lock.acquire, False)
    let_go(lock)  # another's: it stays
    assert not lock.acquire(blocking=False)


def test_a_queues_lock_is_free_after_whatever_was_raised_in_taking_it():
    class Queue:
        def catch_up(self, _batch):
            raise Alarm

    bursts = {object()}
    lock = QueueLock(Queue(), bursts)
    with pytest.raises(Alarm), lock:
        pytest.fail("it was taken")
    bursts.clear()

    def use():
        with lock:
            return True

    assert elsewhere(use)


# --- what `submit` returns


WAITS = {
    "result": lambda future: future.result(0.001),
    "exception": lambda future: future.exception(0.001),
    "cancel": lambda future: future.cancel(),
    "add_done_callback": lambda future: future.add_done_callback(lambda _: None),
    "done": lambda future: (future.done(), future.running(), future.cancelled()),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_future_ends_and_lets_others_wait_whatever_its_owner_was_doing(wait):
    """Nobody keeps the lock that all futures share, and the thread that ends one does not stand."""

    def call(future):
        try:
            WAITS[wait](future)
        except TimeoutError as error:
            if error.args:  # the test's
                raise

    def end(future):
        try:
            if future.claim():
                future.set_result(STORED)
            return future.result()
        except CancelledError:
            return None

    made, left = [], []

    def prepare(_):
        made.append(SendFuture(left.append))
        return made[-1]

    def check(_step, _place):
        future = made[-1]
        assert elsewhere(end, future) in ({STORED} if wait != "cancel" else {STORED, None})
        assert future in left, "the producer learns of its end"
        other = SendFuture()
        assert elsewhere(end, other) == STORED

    at_each_step(call, check, prepare=prepare)
