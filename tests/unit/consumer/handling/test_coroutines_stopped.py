"""Runs of an async handler that are stopped: lost queues, cancelled tasks, and how loops end."""

import asyncio
import threading

import pytest

from orderly.consumer.handling.calling import Mode
from orderly.consumer.handling.errand import CallHandler
from orderly.ordering.drop import Drop
from orderly.ordering.outcomes import Ack
from tests.support.coroutines import OTHER, Setting, done, goes_on
from tests.support.messages import message
from tests.support.waiting import eventually


@pytest.fixture
def setting(session, hold, monkeypatch):
    setting = Setting(session, hold, monkeypatch)
    yield setting
    setting.gate.set()
    setting.engine.close()
    eventually(lambda: setting.own_thread() is None)


def test_a_lost_queues_handlers_are_cancelled_and_no_others(setting):
    setting.act = setting.waits
    lost, kept = setting.hold("ab"), setting.hold("a", OTHER)
    eventually(lambda: len(setting.running) == 3)
    lost.owned.drop(Drop.LOST)
    setting.engine.interrupt(lost)
    eventually(lambda: list(setting.running) == [(OTHER, "a")])
    eventually(lambda: lost.owned.idle)
    setting.gate.set()
    done(kept, 1)
    assert lost.owned.offset == 0, "what was cancelled is not acknowledged"


def test_the_rebalancer_hears_of_a_leaving_queue_whose_last_handler_ended(setting, attention):
    setting.act = setting.waits
    held = setting.hold("a")
    eventually(lambda: setting.running)
    held.owned.drop(Drop.REVOKED)
    assert attention == []
    setting.gate.set()
    eventually(lambda: attention)
    assert (held.owned.idle, held.owned.offset) == (True, 1)


def test_a_task_that_was_cancelled_by_the_program_loses_neither_message_nor_claim(setting):
    async def cancels_itself(messages, context):
        setting.act = setting.passes
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    setting.act = cancels_itself
    held = setting.hold("a", max_runs=1)
    eventually(lambda: len(setting.timers.waiting) == 2 and held.owned.idle)
    assert held.owned.offset == 0
    assert not held.owned.request_run(), "the message waits as after a failure"
    while setting.timers.waiting:
        setting.later()
    done(held, 1)
    assert setting.calls == [0, 0]
    assert goes_on(setting, held)


def test_a_handler_that_answers_and_then_is_cancelled_between_two_batches_leaves_no_claim(setting):
    async def cancels_what_follows(messages, context):
        asyncio.current_task().cancel()
        return Ack()

    setting.act = cancels_what_follows
    held = setting.hold("a", max_runs=1)
    done(held, 1)
    eventually(lambda: not setting.engine._tasks)
    setting.act = setting.passes
    assert goes_on(setting, held)
    eventually(lambda: not setting.engine._tasks)
    held.owned.pulled([message(91), message(92)], 93, None, ["a", "b"])
    assert held.owned.request_run()
    held.owned.begin_run()
    assert not held.owned.request_run(), "there may be one run, not two"


def test_when_the_program_stops_a_task_no_other_takes_its_place_at_once(setting):
    """Its loop may be about to end, as that of `asyncio.run` after it cancelled all tasks."""
    setting.engine._limit = 1
    setting.act = setting.waits
    first, second = setting.hold("a"), setting.hold("a", OTHER)
    eventually(lambda: setting.running)
    (task,) = setting.engine._tasks
    setting.engine._loop.call_soon_threadsafe(task.cancel)
    eventually(lambda: len(setting.timers.waiting) == 2)
    assert (setting.engine._tasks, len(setting.calls)) == ({}, 1)
    setting.gate.set()
    while setting.timers.waiting:
        setting.later()
    done(first, 1)
    done(second, 1)


def test_a_task_of_a_lost_queue_makes_room_at_once(setting):
    setting.engine._limit = 1
    setting.act = setting.waits
    lost, kept = setting.hold("a"), setting.hold("a", OTHER)
    eventually(lambda: setting.running)
    lost.owned.drop(Drop.LOST)
    setting.engine.interrupt(lost)
    setting.gate.set()
    done(kept, 1)


def test_a_loop_for_which_there_is_no_thread_is_started_later(setting, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        held = setting.hold("a", max_runs=1)
    assert setting.timers.seconds == [2.5]
    setting.timers.ring()
    done(held, 1)
    assert goes_on(setting, held)


def test_a_keyboard_interrupt_that_a_handler_raises_does_not_end_the_loop(setting):
    async def interrupts(messages, context):
        setting.act = setting.passes
        raise KeyboardInterrupt

    setting.act = interrupts
    held = setting.hold("a")
    eventually(lambda: setting.timers.waiting)
    setting.timers.ring()
    done(held, 1)


def test_close_ends_the_loops_thread_once_the_last_handler_ended(setting):
    setting.act = setting.waits
    held = setting.hold("a")
    eventually(lambda: setting.running)
    setting.engine.close()
    setting.engine.close()
    assert setting.own_thread() is not None
    setting.gate.set()
    eventually(lambda: setting.own_thread() is None)
    assert held.owned.offset == 1, "its result still counted"
    setting.engine.ready(setting.hold("a", OTHER))
    setting.engine.interrupt(held)
    assert setting.calls == [0]


def test_without_a_run_there_is_no_thread(setting):
    setting.engine.close()
    assert setting.own_thread() is None


def test_on_the_programs_loop_handlers_run_there_and_it_is_left_alone(setting):
    async def program():
        setting.engine.use(asyncio.get_running_loop())
        loops = []

        async def notes(messages, context):
            loops.append((asyncio.get_running_loop(), setting.engine.inside))
            return Ack()

        setting.act = notes
        held = await asyncio.to_thread(setting.hold, "ab")
        await asyncio.to_thread(done, held, 2)
        setting.engine.close()
        await asyncio.sleep(0.01)
        return loops == [(asyncio.get_running_loop(), True)] * 2

    assert asyncio.run(asyncio.wait_for(program(), 5))
    assert setting.own_thread() is None
    assert not setting.engine.inside


def test_once_the_programs_loop_is_closed_nothing_runs_and_nothing_raises(setting):
    async def program():
        setting.engine.use(asyncio.get_running_loop())

    asyncio.run(program())
    held = setting.hold("a")
    setting.engine.interrupt(held)
    assert setting.calls == []


def test_a_task_that_is_cancelled_before_it_began_costs_no_run(setting):
    """As by a program that cancels whatever is on its loop."""
    loop, cancelled = setting.engine._running_loop(), []
    create_task = loop.create_task

    def create_cancelled(coroutine, **kwargs):
        task = create_task(coroutine, **kwargs)
        if not cancelled:
            cancelled.append(task)
            task.cancel()
        return task

    loop.create_task = create_cancelled
    held = setting.hold("a", max_runs=1)
    eventually(lambda: len(setting.timers.waiting) == 2)
    assert setting.calls == []
    while setting.timers.waiting:
        setting.timers.ring()
    done(held, 1)


def test_what_a_closed_loop_left_in_work_is_freed(setting):
    """A loop that was closed without its tasks being ended, as by `loop.close()`."""
    loop = asyncio.new_event_loop()
    setting.engine.use(loop)
    setting.act = lambda *_: asyncio.Event().wait()
    held = setting.hold("ab", max_runs=1)
    loop.run_until_complete(asyncio.sleep(0.01))
    assert not held.owned.idle
    setting.engine.abandon()
    assert not held.owned.idle, "the loop might still go on"
    tasks = asyncio.all_tasks(loop)
    loop.close()
    setting.engine.abandon()
    assert held.owned.idle
    setting.later()
    assert setting.timers.seconds == [2.5], "the claim waits for a loop, and no room is taken"
    assert setting.engine._in_flight == len(tasks) == 1


def test_a_loop_that_is_not_ours_is_never_stopped(setting):
    held = setting.hold("a")
    done(held, 1)

    async def program():
        setting.engine.use(asyncio.get_running_loop())
        setting.engine.close()
        await asyncio.to_thread(eventually, lambda: setting.own_thread() is None)

    asyncio.run(program())


def test_a_task_that_runs_a_handler_is_told_from_its_loops_others(setting):
    asked = []

    async def asks(messages, context):
        other = asyncio.create_task(tells())
        asked.append((setting.engine.inside, setting.engine.handling))
        await other
        return Ack()

    async def tells():
        asked.append((setting.engine.inside, setting.engine.handling))

    setting.act = asks
    done(setting.hold("a"), 1)
    assert asked == [(True, True), (True, False)]
    assert not setting.engine.handling


class Endless:
    """An errand that calls the handler for ever."""

    def __init__(self):
        self.closed = threading.Event()

    def steps(self):
        try:
            while True:
                yield CallHandler((message(77, "z"),), Mode.REPLAY)
        finally:
            self.closed.set()


def test_an_errand_of_a_lost_queue_is_stopped(setting):
    setting.act = setting.waits
    held = setting.hold("a")
    errand = Endless()
    with held.lock:
        held.owned.send_errand("z", errand)
    setting.engine.ready(held)
    eventually(lambda: len(setting.running) == 2)
    held.owned.drop(Drop.LOST)
    setting.engine.interrupt(held)
    assert errand.closed.wait(30)
    eventually(lambda: held.owned.idle)
