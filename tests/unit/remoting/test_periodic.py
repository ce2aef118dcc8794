import threading
import time

import pytest

from orderly.errors import LifecycleError
from orderly.remoting.periodic import Periodic
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
