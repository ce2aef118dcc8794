"""Handlers that run for too long: which calls run, where, and when one counts as hanging."""

import asyncio
import math
import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.clock import AwakeClock, now
from orderly.config import is_async
from orderly.consumer.hung_calls import (
    RunningCalls,
    coroutine_stack,
    ends_process,
    hang_stage,
    interval,
    thread_stack,
)
from orderly.errors import HandlerHung
from orderly.ordering.context import ConsumeContext
from orderly.ordering.results import Ack, Suspend
from tests.support.messages import QUEUE, message
from tests.support.standstill import can_stand_still
from tests.support.waiting import eventually

BATCH = (message(1, "a"),)


@pytest.fixture
def calls():
    return RunningCalls(now)


@pytest.fixture
def context():
    return ConsumeContext(QUEUE, "group")


def raises(messages, context):
    raise ValueError("no good")


def test_a_call_is_noted_while_it_runs_and_no_longer(calls, context):
    seen = []

    def handle(messages, context):
        seen.extend(calls.running(0))
        assert calls.running(1) == []
        return Ack()

    assert calls.around(handle)(BATCH, context) == Ack()
    assert [(call.messages, call.context is context) for call in seen] == [(BATCH, True)]
    assert seen[0].thread == threading.get_ident()
    assert calls.running(0) == []
    assert calls.stack(seen[0]) is None


def test_a_call_that_raises_is_over(calls, context):
    with pytest.raises(ValueError, match="no good"):
        calls.around(raises)(BATCH, context)
    assert calls.running(0) == []


def test_nothing_runs_for_ever(calls, context):
    calls.around(lambda *_: calls.running(math.inf) == [] and Ack())(BATCH, context)


def test_a_standstill_of_the_process_is_no_part_of_a_call(context, monkeypatch):
    stand_still, awake = can_stand_still(monkeypatch), AwakeClock()
    calls, seen = RunningCalls(awake.now), []

    def handle(messages, context):
        stand_still(1000.0)
        seen.extend(calls.running(0))
        return Ack()

    calls.around(handle)(BATCH, context)
    awake.close()
    (call,) = seen
    assert call.seconds < 500


async def the_call(calls):
    while not calls.running(0):  # noqa: ASYNC110 - it is noted for threads, not for tasks
        await asyncio.sleep(0)
    return calls.running(0)[0]


def cancelled_when_it_waits(calls, context, handle, *, more=lambda _: None, batch=BATCH):
    """Run `handle`, cancel its call once it waits; returns (outcome, what the task does next)."""

    async def work():
        task = asyncio.current_task()
        try:
            outcome = await calls.around(handle)(batch, context)
        except BaseException as error:
            outcome = error
        left = task.cancelling()
        while task.cancelling():
            task.uncancel()
        await asyncio.sleep(0)  # a cancellation left over would strike here
        return outcome, left

    async def main():
        task = asyncio.ensure_future(work())
        call = await the_call(calls)
        await asyncio.sleep(0.01)
        calls.cancel(call)
        calls.cancel(call)
        more(task)
        return await asyncio.wait_for(task, 30)

    return asyncio.run(main())


async def waits(messages, context):
    await asyncio.sleep(60)


def test_a_coroutine_that_hangs_is_cancelled_and_its_task_goes_on(calls, context):
    assert is_async(calls.around(waits))
    outcome, left = cancelled_when_it_waits(calls, context, waits)
    assert isinstance(outcome, HandlerHung)
    assert isinstance(outcome.__cause__, asyncio.CancelledError)
    assert left == 0
    assert calls.running(0) == []


def test_what_it_had_named_done_is_done_and_what_follows_was_not_tried(calls):
    batch = tuple(message(offset, "a") for offset in range(4))
    context = ConsumeContext(QUEUE, "group")

    async def waits_in_the_second(messages, context):
        context.done(messages[0])
        await asyncio.sleep(60)

    outcome, _ = cancelled_when_it_waits(calls, context, waits_in_the_second, batch=batch)
    assert isinstance(outcome, HandlerHung)
    assert (context.finished, context.untried) == ({0}, {2, 3})


class Listening:
    """A handler that wants to know how its calls end."""

    def __init__(self):
        self.told = []

    async def __call__(self, messages, context):
        await asyncio.sleep(60)

    def call_failed(self, messages, context, error):
        self.told.append((messages, context, error))
        return Suspend(5)


def test_a_handler_that_has_a_say_in_it_answers_for_a_call_that_was_cancelled(calls, context):
    handler = Listening()
    assert cancelled_when_it_waits(calls, context, handler) == (Suspend(5), 0)
    ((messages, told, error),) = handler.told
    assert messages == BATCH
    assert told is context
    assert isinstance(error, HandlerHung)
    assert isinstance(error.__cause__, asyncio.CancelledError)


def test_a_coroutine_that_answers_all_the_same_is_believed(calls, context):
    async def insists(messages, context):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return Ack()

    assert cancelled_when_it_waits(calls, context, insists) == (Ack(), 0)


def test_a_task_that_is_cancelled_by_others_too_stays_cancelled(calls, context):
    async def slow_to_go(messages, context):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            raise

    outcome, left = cancelled_when_it_waits(
        calls,
        context,
        slow_to_go,
        more=lambda task: asyncio.get_running_loop().call_later(0.005, task.cancel),
    )
    assert isinstance(outcome, asyncio.CancelledError)
    assert left == 1, "the other's request is not taken back"


def test_a_call_that_is_over_cancels_nothing(calls, context):
    async def main():
        seen = []

        async def handle(messages, context):
            seen.extend(calls.running(0))
            return Ack()

        await calls.around(handle)(BATCH, context)
        calls.cancel(seen[0])
        await asyncio.sleep(0.01)
        return asyncio.current_task().cancelling()

    assert asyncio.run(main()) == 0


async def inner_wait(gate):
    await gate.wait()


def test_the_stack_of_a_coroutine_goes_down_to_where_it_waits(calls, context):
    gate = None

    async def outer(messages, context):
        await inner_wait(gate)
        return Ack()

    async def main():
        nonlocal gate
        gate = asyncio.Event()
        task = asyncio.ensure_future(calls.around(outer)(BATCH, context))
        call = await the_call(calls)
        stack = await asyncio.to_thread(calls.stack, call)
        gate.set()
        await task
        return stack

    stack = asyncio.run(main())
    assert stack.index("in outer") < stack.index("in inner_wait")
    assert "in main" not in stack


def test_the_stack_of_a_coroutine_that_blocks_its_loop_is_its_threads(calls, context):
    let_go = threading.Event()

    async def blocks(messages, context):
        wait_badly(let_go)
        return Ack()

    thread = threading.Thread(target=lambda: asyncio.run(calls.around(blocks)(BATCH, context)))
    thread.start()
    (call,) = eventually(lambda: calls.running(0))
    try:
        eventually(lambda: "in wait_badly" in calls.stack(call))
    finally:
        let_go.set()
        thread.join()


def wait_badly(let_go):
    let_go.wait(20)


def test_a_closed_loop_is_no_trouble(calls, context):
    seen = []

    async def handle(messages, context):
        seen.extend(calls.running(0))
        return Ack()

    asyncio.run(calls.around(handle)(BATCH, context))
    calls.cancel(seen[0])


def test_the_longest_comes_first(calls, context):
    entered, go_on = threading.Semaphore(0), threading.Event()

    def handle(messages, context):
        entered.release()
        go_on.wait(20)
        return Ack()

    threads = [
        threading.Thread(target=calls.around(handle), args=(BATCH, context)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
        assert entered.acquire(timeout=30)
        time.sleep(0.001)
    times = [call.since for call in calls.running(0)]
    go_on.set()
    for thread in threads:
        thread.join()
    assert times == sorted(times)
    assert len(times) == 3


# --- calls that run too long ----------------------------------------------------------------------


def test_stages():
    assert [hang_stage(s, 5.0) for s in (0, 4.9, 5, 9.9, 10, 19, 20, 40)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        4,
    ]


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e4))
def test_a_stage_is_reached_at_its_doubling_and_not_before(seconds, timeout):
    reached = hang_stage(seconds, timeout)
    assert reached == 0 or seconds >= timeout * 2 ** (reached - 1)
    assert seconds < timeout * 2**reached * (1 + 1e-9)


@pytest.mark.parametrize(
    ("on_hang", "stoppable", "again", "ends"),
    [
        ("block", False, True, False),
        ("block", True, True, False),
        ("exit", False, False, True),
        ("exit", True, False, False),
        ("exit", True, True, True),
    ],
)
def test_what_ends_the_process(on_hang, stoppable, again, ends):
    assert ends_process(on_hang, stoppable=stoppable, again=again) is ends


def test_the_interval_follows_the_timeout_within_bounds():
    assert [interval(t) for t in (0.1, 4.0, 600.0)] == [0.25, 1.0, 5.0]


# --- stacks as text -------------------------------------------------------------------------------


def deeper(levels):
    return thread_stack(threading.get_ident()) if levels == 0 else deeper(levels - 1)


def test_the_innermost_call_comes_last():
    functions = re.findall(r"line \d+, in (\w+)", deeper(2))
    assert functions[-5:] == [
        "test_the_innermost_call_comes_last", "deeper", "deeper", "deeper", "thread_stack",
    ]  # fmt: skip


def test_a_long_stack_keeps_what_is_inside():
    stack = deeper(150)
    assert 3000 < len(stack) < 4100
    assert stack.startswith("…")
    assert "in thread_stack" in stack


def test_a_thread_that_has_ended_has_none():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert thread_stack(-1) == ""


def test_what_is_no_coroutine_has_none():
    assert coroutine_stack(object()) == ""
