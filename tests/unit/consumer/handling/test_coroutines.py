"""Runs of an async handler: how many at once, in which order, and what a failure does."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.consumer.handling.coroutines import _aside
from orderly.consumer.handling.direct_call import DirectCall
from orderly.consumer.session import now
from orderly.ordering.outcomes import Ack, DeadLetter, Fail
from tests.support.coroutines import CONCURRENCY, OTHER, Setting, done, goes_on
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually


@pytest.fixture
def setting(session, hold, monkeypatch):
    setting = Setting(session, hold, monkeypatch)
    yield setting
    setting.gate.set()
    setting.engine.close()
    eventually(lambda: setting.own_thread() is None)


def test_keys_run_side_by_side_and_each_in_order(setting):
    setting.act = setting.waits
    held = setting.hold("aabbc")
    eventually(lambda: len(setting.running) == 3)
    assert sorted(setting.calls) == [0, 2, 4]
    setting.gate.set()
    done(held, 5)
    assert [offset for offset in setting.calls if offset in (0, 1)] == [0, 1]


def test_no_more_than_the_limit_are_in_flight_over_all_queues(setting):
    setting.act = setting.waits
    first, second = setting.hold("abcdef"), setting.hold("abcdef", OTHER)
    eventually(lambda: len(setting.running) == CONCURRENCY)
    setting.gate.set()
    done(first, 6)
    done(second, 6)
    assert setting.most == CONCURRENCY
    assert sorted(setting.calls) == sorted([*range(6)] * 2)


def test_when_all_is_done_no_claim_is_left(setting):
    held = setting.hold("abcabc", max_runs=1)
    done(held, 6)
    assert goes_on(setting, held)


def test_a_run_that_never_waits_gives_way_to_another_queue(setting):
    seen = []

    async def forever(messages, context):
        seen.append(context.message_queue)
        if context.message_queue == QUEUE and OTHER not in seen and len(seen) < 10**6:
            end = messages[0].queue_offset + 1000
            first = setting.session.find(QUEUE)
            with first.lock:
                first.owned.messages.put([message(end)], ["a"])
        return Ack()

    setting.engine._limit = 1
    setting.act = forever
    setting.hold("a", max_runs=1)
    eventually(lambda: len(seen) > 10)
    setting.hold("a", OTHER, max_runs=1)
    eventually(lambda: OTHER in seen)


def test_no_handler_begins_while_a_dead_letter_of_its_key_is_being_stored(setting, cluster):
    """Also if the task is cancelled meanwhile: the thread that stores it goes on."""
    storing, stored = threading.Event(), threading.Event()

    def send_now(queue, command):
        storing.set()
        assert stored.wait(30)

    async def rejects(messages, context):
        setting.act = setting.passes
        return DeadLetter("bad")

    cluster.send_now = send_now
    setting.act = rejects
    held = setting.hold("aa")
    assert storing.wait(30)
    (task,) = setting.engine._tasks
    setting.engine._loop.call_soon_threadsafe(task.cancel)
    setting.engine._loop.call_soon_threadsafe(task.cancel)
    ticked = threading.Event()
    setting.engine._loop.call_soon_threadsafe(ticked.set)
    assert ticked.wait(30)
    setting.engine.ready(held)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.02), setting.engine._loop).result(30)
    assert setting.calls == [0]
    assert not held.owned.idle
    stored.set()
    eventually(lambda: held.owned.offset >= 1)
    eventually(lambda: not setting.engine._tasks)
    while setting.timers.waiting:
        setting.timers.ring()
    done(held, 2)
    assert setting.calls == [0, 1], "the dead letter is done, the next one comes once"


def test_while_a_dead_letter_is_stored_the_other_keys_go_on(setting, cluster):
    stored = threading.Event()
    cluster.send_now = lambda queue, command: stored.wait(30)

    async def rejects_the_first(messages, context):
        return DeadLetter("bad") if context.key == "a" else Ack()

    setting.act = rejects_the_first
    held = setting.hold("abbb")
    eventually(lambda: held.owned.messages.unfinished() == [0])
    stored.set()
    done(held, 4)


def test_a_failing_key_waits_without_a_task_and_the_others_go_on(setting):
    async def fails_a(messages, context):
        return Fail("no") if context.key == "a" else Ack()

    setting.act = fails_a
    held = setting.hold("abcb")
    eventually(lambda: held.owned.messages.unfinished() == [0])
    eventually(lambda: not setting.engine._tasks)
    (seconds,) = setting.timers.seconds
    assert 1.25 <= seconds <= 2.5


def test_after_a_defect_of_ours_the_message_comes_again(setting, monkeypatch):
    finish = setting.engine._finisher.finish

    def defect(*args):
        setting.engine._finisher.finish = finish
        raise RuntimeError("made by the test")

    setting.engine._finisher.finish = defect
    held = setting.hold("a", max_runs=1)
    eventually(lambda: setting.timers.waiting and held.owned.idle)
    setting.timers.ring()
    done(held, 1)
    assert setting.calls == [0, 0]
    assert goes_on(setting, held)


def test_a_defect_after_a_batch_was_finished_leaves_the_batch_finished(setting):
    def defect(held):
        setting.engine._reopened = setting.reopened.append
        raise RuntimeError("made by the test")

    held = setting.hold("", max_runs=1)
    held.owned.limit(1, 10**6)
    setting.engine._reopened = defect
    held.owned.pulled([message(0), message(1)], 2, None, ["a", "b"])
    held.owned.pull_gate(now())
    assert held.owned.throttled
    setting.engine.ready(held)
    eventually(lambda: setting.timers.waiting)
    while setting.timers.waiting:
        setting.timers.ring()
    done(held, 2)
    assert sorted(setting.calls) == [0, 1]
    assert goes_on(setting, held)


def test_what_is_consumed_by_hand_runs_in_its_keys_turn(setting):
    setting.act = setting.waits
    held = setting.hold("a")
    eventually(lambda: setting.running)
    by_hand = DirectCall(message(77, "a"))
    with held.lock:
        held.owned.send_errand("a", by_hand)
    setting.engine.ready(held)
    setting.gate.set()
    assert by_hand.wait(30).result.value == "SUCCESS"
    assert setting.calls == [0, 77]
    done(held, 1)


def test_what_blocks_needs_no_thread_of_the_loops_executor():
    """Those are the program's; another broker's silence must not be its handlers' wait."""
    blocked = threading.Event()

    async def run():
        pool = ThreadPoolExecutor(1)
        loop = asyncio.get_running_loop()
        loop.set_default_executor(pool)
        busy = loop.run_in_executor(None, blocked.wait, 10)
        try:
            return await asyncio.wait_for(_aside(lambda: "done"), 5)
        finally:
            blocked.set()
            await busy

    assert asyncio.run(run()) == "done"
