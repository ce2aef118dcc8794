import threading

import pytest

from orderly.remoting.single_flight import SingleFlight

SOON = 30.0


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
