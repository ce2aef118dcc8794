from __future__ import annotations

import threading
import time

import pytest

from orderly.client.background import Periodic, Schedule, SingleFlight
from orderly.errors import LifecycleError
from tests.support.waiting import eventually

SOON = 30.0  # a deadline, not a duration: conditions below are met in milliseconds
NEVER = 3600.0


class Counter:
    """Counts runs and lets a test wait for the n-th."""

    def __init__(self):
        self.runs = 0
        self.changed = threading.Condition()

    def __call__(self):
        with self.changed:
            self.runs += 1
            self.changed.notify_all()

    def reaches(self, runs):
        with self.changed:
            return self.changed.wait_for(lambda: self.runs >= runs, SOON)


@pytest.fixture
def running():
    started = []

    def run(work, *, interval=NEVER, first_after=0.0):
        periodic = Periodic("test", interval, work, first_after=first_after)
        started.append(periodic)
        periodic.start()
        return periodic

    yield run
    for periodic in started:
        assert periodic.stop(SOON)


def test_first_run_comes_at_once_and_further_ones_by_the_interval(running):
    work = Counter()
    running(work, interval=0.005)
    assert work.reaches(4)


def test_first_after_holds_the_first_run_back_until_a_wake(running):
    work = Counter()
    periodic = running(work, first_after=NEVER)
    assert work.runs == 0
    periodic.wake()
    assert work.reaches(1)


def test_wakes_while_work_runs_make_exactly_one_more_run(running):
    entered, leave, done = threading.Event(), threading.Event(), Counter()

    def work():
        entered.set()
        assert leave.wait(SOON)
        done()

    periodic = running(work)
    assert entered.wait(SOON)
    periodic.wake()
    periodic.wake()
    leave.set()
    assert done.reaches(2)
    assert periodic.stop(SOON)
    assert done.runs == 2


@pytest.mark.parametrize("error", [ValueError, SystemExit], ids=lambda e: e.__name__)
def test_whatever_is_raised_is_logged_and_the_loop_goes_on(running, caplog, error):
    work = Counter()

    def failing():
        work()
        raise error("broken round")

    running(failing, interval=0.005)
    assert work.reaches(3)
    assert "broken round" in caplog.text


def test_an_interval_longer_than_any_wait_does_not_end_the_loop(running):
    work = Counter()
    periodic = running(work, interval=2 * threading.TIMEOUT_MAX)
    for runs in range(1, 51):  # the thread may or may not wait when it is woken; once it will
        assert work.reaches(runs)
        periodic.wake()


def test_stop_waits_for_the_run_in_progress_and_says_if_it_did_not_end(running):
    entered, leave = threading.Event(), threading.Event()

    def work():
        entered.set()
        assert leave.wait(SOON)

    periodic = running(work)
    assert entered.wait(SOON)
    assert periodic.stop(0.01) is False
    leave.set()
    assert periodic.stop(SOON) is True
    assert periodic.stop(SOON) is True


def test_work_may_stop_its_own_loop():
    stopped = threading.Event()

    def work():
        periodic.stop(SOON)
        stopped.set()

    periodic = Periodic("test", 0.001, work)
    periodic.start()
    assert stopped.wait(SOON)
    assert periodic.stop(SOON)


def test_a_second_start_is_refused(running):
    periodic = running(Counter())
    with pytest.raises(LifecycleError):
        periodic.start()


def test_start_after_stop_is_refused_and_stop_before_start_is_harmless():
    periodic = Periodic("test", NEVER, Counter())
    assert periodic.stop() is True
    with pytest.raises(LifecycleError):
        periodic.start()


def test_the_thread_is_a_daemon_and_carries_its_role():
    seen = []
    ran = threading.Event()

    def work():
        seen.append(threading.current_thread())
        ran.set()

    periodic = Periodic("rebalance", NEVER, work)
    periodic.start()
    assert ran.wait(SOON)
    periodic.stop(SOON)
    assert seen[0].name == "orderly-rebalance"
    assert seen[0].daemon


def test_several_wakes_within_a_time_make_one_run_at_the_earliest():
    ran = []
    periodic = Periodic("test", 60.0, lambda: ran.append(time.monotonic()), first_after=60.0)
    periodic.start()
    try:
        asked = time.monotonic()
        for seconds in (50.0, 1.0, 50.0, 1.5):
            periodic.wake_within(seconds)
        eventually(lambda: ran)
        assert 1.0 <= ran[0] - asked < 40
        eventually(lambda: time.monotonic() - asked > 2)
        assert len(ran) == 1
    finally:
        periodic.stop()


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
    def done_in_order():
        gate, done, order = threading.Event(), threading.Event(), []
        begun = time.monotonic()
        schedule.after(0, lambda: gate.wait(SOON))  # holds the thread until all are planned
        schedule.after(2.0, lambda: order.append("late"))
        schedule.after(0, lambda: order.append("first"))
        schedule.after(0, lambda: order.append("second"))
        schedule.after(2.001, done.set)
        planned_in_time = time.monotonic() - begun < 2.0  # or another order is right
        gate.set()
        assert done.wait(SOON)
        return planned_in_time and order

    assert eventually(done_in_order) == ["first", "second", "late"]


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


class Work:
    """Work that waits for the test's permission to end."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.may_end.wait(SOON)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def never():
    raise AssertionError("joined too late: the work was done twice")


def waiting(flights, key, count):
    """Wait until `count` threads hold the flight's future (they block on it next)."""
    future = flights._flights[key]
    with future._condition:
        return future._condition.wait_for(lambda: len(future._condition._waiters) >= count, 0.01)


def fly_together(flights, in_thread, work):
    leader = in_thread(flights.do, "key", work)
    assert work.begun.wait(SOON)
    followers = [in_thread(flights.do, "key", never) for _ in range(5)]
    while not waiting(flights, "key", 5):
        pass
    work.may_end.set()
    return leader, followers


def test_those_who_come_meanwhile_get_the_same_result(in_thread):
    result = object()
    leader, followers = fly_together(SingleFlight(), in_thread, Work(result))
    assert [f.result(SOON) for f in (leader, *followers)] == [result] * 6


def test_those_who_come_meanwhile_share_the_failure(in_thread):
    leader, followers = fly_together(SingleFlight(), in_thread, Work(ValueError("broken")))
    for flown in (leader, *followers):
        with pytest.raises(ValueError, match="broken"):
            flown.result(SOON)


def test_who_comes_after_the_end_works_again():
    flights = SingleFlight()
    assert flights.do("key", lambda: 1) == 1
    assert flights.do("key", lambda: 2) == 2
    with pytest.raises(ValueError):
        flights.do("key", lambda: int("x"))
    assert flights.do("key", lambda: 3) == 3


def test_different_keys_do_not_wait_for_each_other(in_thread):
    flights = SingleFlight()
    work = Work(1)
    slow = in_thread(flights.do, "slow", work)
    assert work.begun.wait(SOON)
    assert flights.do("quick", lambda: 2) == 2
    work.may_end.set()
    assert slow.result(SOON) == 1


def test_after_an_interruption_another_one_does_the_work(in_thread):
    flights = SingleFlight()
    work = Work(KeyboardInterrupt())
    leader = in_thread(flights.do, "key", work)
    assert work.begun.wait(SOON)
    follower = in_thread(flights.do, "key", lambda: "done by another")
    while not waiting(flights, "key", 1):
        pass
    work.may_end.set()
    assert follower.result(SOON) == "done by another"
    with pytest.raises(KeyboardInterrupt):
        leader.result(SOON)
