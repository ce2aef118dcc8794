"""A SendFuture is told apart from the standard Future by nothing but its size."""

import asyncio
import threading
from concurrent.futures import CancelledError, Future, InvalidStateError, as_completed, wait

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue, SendResult
from orderly.producer.future import SendFuture
from tests.support.waiting import eventually

STORED = SendResult(MessageQueue("orders", "broker-a", 0), 7, "id", "offset-id")
FAILED = RuntimeError("made by the test")

STEPS = {
    "run": lambda future, told: future.set_running_or_notify_cancel(),
    "store": lambda future, told: future.set_result(STORED),
    "fail": lambda future, told: future.set_exception(FAILED),
    "cancel": lambda future, told: future.cancel(),
    "watch": lambda future, told: future.add_done_callback(lambda it: told.append(it is future)),
    "done": lambda future, told: (future.done(), future.running(), future.cancelled()),
    "result": lambda future, told: future.result(0),
    "exception": lambda future, told: future.exception(0),
}


def story(future, steps):
    """What each step returned or raised, and what callbacks were told."""
    told, heard = [], []
    for step in steps:
        try:
            heard.append(STEPS[step](future, told))
        except (CancelledError, InvalidStateError, TimeoutError, RuntimeError) as error:
            heard.append(type(error))
        heard.append(len(told))
    return heard, told


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=12))
def test_it_behaves_as_the_standard_one(steps):
    assert story(SendFuture(), steps) == story(Future(), steps)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [(lambda f: f.set_result(STORED), STORED), (lambda f: f.set_exception(FAILED), FAILED)],
)
def test_who_waits_already_is_woken(finish, expected):
    future, heard = SendFuture(), []
    waiting = threading.Thread(target=lambda: heard.append(future.exception(60) or future.result()))
    waiting.start()
    eventually(lambda: future._made is not None and future._made._waiters)
    finish(future)
    waiting.join(60)
    assert heard == [expected]


def test_of_many_that_wait_as_it_finishes_none_waits_for_ever():
    for _ in range(300):
        future, heard = SendFuture(), []
        threads = [
            threading.Thread(target=lambda: heard.append(future.result(60)))  # noqa: B023
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        future.set_result(STORED)
        for thread in threads:
            thread.join(60)
        assert heard == [STORED] * 3


def test_the_standard_librarys_helpers_take_it():
    first, second = SendFuture(), SendFuture()
    first.set_result(STORED)
    assert wait([first, second], timeout=0).done == {first}
    threading.Timer(0.01, second.set_result, [STORED]).start()
    assert set(as_completed([first, second], timeout=60)) == {first, second}

    async def awaited():
        third = SendFuture()
        threading.Timer(0.01, third.set_result, [STORED]).start()
        return await asyncio.wait_for(asyncio.wrap_future(third), 60)

    assert asyncio.run(awaited()) == STORED


def test_nobody_that_waits_means_no_condition():
    future, told = SendFuture(), []
    future.add_done_callback(told.append)
    assert future.set_running_or_notify_cancel()
    future.set_result(STORED)
    assert told == [future]
    assert future.done()
    assert future.result() == STORED
    assert future._made is None
