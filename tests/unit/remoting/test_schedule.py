import threading
import time

import pytest

from orderly.errors import LifecycleError
from orderly.remoting.schedule import Schedule

SOON = 30.0
NEVER = 3600.0


@pytest.fixture
def schedule():
    schedule = Schedule("test")
    yield schedule
    schedule.close()


def test_work_runs_after_its_delay_not_before(schedule):
    ran = threading.Event()
    at = []

    def work():
        at.append(time.monotonic())
        ran.set()

    begin = time.monotonic()
    schedule.after(0.03, work)
    assert ran.wait(SOON)
    assert at[0] - begin >= 0.03


def test_order_is_by_due_time_then_by_the_order_given(schedule):
    gate, done, order = threading.Event(), threading.Event(), []
    schedule.after(0, lambda: gate.wait(SOON))  # holds the thread until all are planned
    schedule.after(2.0, lambda: order.append("late"))
    schedule.after(0, lambda: order.append("first"))
    schedule.after(0, lambda: order.append("second"))
    schedule.after(2.001, done.set)
    gate.set()
    assert done.wait(SOON)
    assert order == ["first", "second", "late"]


def test_a_sooner_one_overtakes_a_thread_that_waits_for_a_later_one(schedule):
    ran = threading.Event()
    schedule.after(NEVER, lambda: None)
    schedule.after(0.001, ran.set)
    assert ran.wait(SOON)


def test_a_delay_longer_than_any_wait_does_not_end_the_thread(schedule):
    schedule.after(2 * threading.TIMEOUT_MAX, lambda: None)
    for _ in range(50):  # the thread may or may not wait when it is woken; once it will
        ran = threading.Event()
        schedule.after(0, ran.set)
        assert ran.wait(SOON)


def test_a_cancelled_one_does_not_run(schedule):
    ran, done = [], threading.Event()
    gate = threading.Event()
    schedule.after(0, lambda: gate.wait(SOON))
    cancel = schedule.after(0, lambda: ran.append("cancelled"))
    schedule.after(0, done.set)
    cancel()
    gate.set()
    assert done.wait(SOON)
    assert ran == []
    cancel()  # harmless a second time


@pytest.mark.parametrize("error", [ValueError, SystemExit], ids=lambda e: e.__name__)
def test_whatever_is_raised_is_logged_and_the_next_one_runs(schedule, caplog, error):
    done = threading.Event()

    def failing():
        raise error("broken timer")

    schedule.after(0, failing)
    schedule.after(0, done.set)
    assert done.wait(SOON)
    assert "broken timer" in caplog.text


def test_close_forgets_what_is_planned_and_refuses_more(schedule):
    ran = []
    schedule.after(0.01, lambda: ran.append(1))
    schedule.after(NEVER, lambda: ran.append(2))
    schedule.close()
    schedule.close()
    alive = [t for t in threading.enumerate() if t.name == "orderly-test"]
    assert alive == []
    assert 2 not in ran
    with pytest.raises(LifecycleError):
        schedule.after(0, lambda: None)


def test_scheduled_work_may_close_the_schedule(schedule):
    closed = threading.Event()

    def work():
        schedule.close()
        closed.set()

    schedule.after(0, work)
    assert closed.wait(SOON)


def test_no_thread_before_the_first_use():
    Schedule("unused")
    assert not [t for t in threading.enumerate() if t.name == "orderly-unused"]
