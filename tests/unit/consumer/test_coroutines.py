"""Runs of an async handler: how many at once, in which order, and what stops or ends them.

The timers are the test's; the loop is real, on a thread of its own unless a test says otherwise.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer import finishing
from orderly.consumer import workers as engine_module
from orderly.consumer.coroutines import Coroutines, _in_thread
from orderly.consumer.direct_consume import DirectCall
from orderly.consumer.handler_caller import Caller, CallHandler, Mode
from orderly.consumer.hung_calls import thread_stack
from orderly.ordering.lane import Turn
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack, DeadLetter
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually

CONCURRENCY = 3
OTHER = replace(QUEUE, queue_id=1)


class Setting:
    """An engine and its handler, which notes each call and does what `act` says."""

    def __init__(self, session, hold, monkeypatch):
        self.ahead = 0.0  # seconds the clock of the test is ahead
        for module in (engine_module, finishing):
            monkeypatch.setattr(module, "now", lambda: now() + self.ahead)
        session.config = ConsumerConfig(order="key", concurrency=CONCURRENCY, suspend=2.5)
        self.session, self._hold = session, hold
        self.timers = session.client.schedule
        self.calls, self.running, self.most, self.acks = [], {}, 0, []
        self.gate = threading.Event()
        self.act = self.passes
        self.reopened = []
        self.engine = Coroutines(session, Caller(session, self.handle), self.reopened.append)
        session.interrupt = self.engine.interrupt

    def hold(self, keys, queue=QUEUE, **settings):
        """A queue with one message for each key, which runs at once."""
        by_key = {"by_key": True, "max_runs": CONCURRENCY} | settings
        held = self._hold(queue, **by_key)
        found = [message(offset, key, queue) for offset, key in enumerate(keys)]
        held.owned.pull_gate(now())
        held.owned.pulled(found, len(keys), None, list(keys))
        self.engine.ready(held)
        return held

    async def handle(self, messages, context):
        lane = (context.message_queue, context.key)
        assert lane not in self.running, "one message of a key at a time"
        self.running[lane] = messages[0].queue_offset
        self.most = max(self.most, len(self.running))
        self.calls.append(messages[0].queue_offset)
        try:
            return await self.act(messages, context)
        finally:
            del self.running[lane]

    async def passes(self, messages, context):
        return Ack()

    async def waits(self, messages, context):
        await asyncio.to_thread(self.gate.wait, 30)
        return Ack()

    def later(self):
        """Let as much time pass as a failed lane waits."""
        self.ahead += 2.5
        self.timers.ring()

    def own_thread(self):
        return next((t for t in threading.enumerate() if t.name == "orderly-loop-group"), None)


def done(held, count):
    eventually(lambda: held.owned.offset == count and held.owned.idle)


def goes_on(setting, held):
    """Whether the queue's only run can be claimed: what comes now is handled."""
    eventually(lambda: not setting.engine._tasks)
    held.owned.pulled([message(90, queue=held.queue)], 91, None, ["z"])
    setting.engine.ready(held)
    done(held, 91)
    return setting.calls[-1] == 90


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
        held.owned.want_turn("a", Turn(by_hand))
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
        busy = loop.run_in_executor(None, blocked.wait, 120)
        try:
            return await asyncio.wait_for(_in_thread(lambda: "done"), 30)
        finally:
            blocked.set()
            await busy

    assert asyncio.run(run()) == "done"


# --- lost queues, cancelled tasks, and how loops end


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
    """A lane task that calls the handler for ever."""

    def __init__(self):
        self.closed = threading.Event()

    def steps(self):
        try:
            while True:
                yield CallHandler((message(77, "z"),), Mode.REPLAY)
        finally:
            self.closed.set()


def test_a_lane_task_of_a_lost_queue_is_stopped(setting):
    setting.act = setting.waits
    held = setting.hold("a")
    lane_task = Endless()
    with held.lock:
        held.owned.want_turn("z", Turn(lane_task))
    setting.engine.ready(held)
    eventually(lambda: len(setting.running) == 2)
    held.owned.drop(Drop.LOST)
    setting.engine.interrupt(held)
    assert lane_task.closed.wait(30)
    eventually(lambda: held.owned.idle)


# --- whether the loop runs ------------------------------------------------------------------------


def moves(engine):
    """Whether the loop shows within a moment that it runs."""
    before = engine.begun
    engine.nudge(standing=False)
    eventually(lambda: engine.begun > before)
    return not engine.waits


def test_a_loop_that_runs_answers_each_time(setting):
    engine = setting.engine
    engine.nudge(standing=False)
    assert (engine.begun, engine.waits, engine.stopped) == (0, False, False), "none is needed yet"
    done(setting.hold("a"), 1)
    assert moves(engine)
    assert moves(engine)
    assert engine.gone is None


def test_a_loop_that_a_handler_blocks_owes_one_answer_and_shows_where_it_is(setting):
    entered = threading.Event()

    async def blocks(messages, context):
        entered.set()
        setting.gate.wait(30)
        return Ack()

    done(setting.hold("a"), 1)
    assert moves(setting.engine), "now its thread is known"
    setting.act = blocks
    held = setting.hold("a", OTHER)
    assert entered.wait(30)
    for _ in range(3):
        setting.engine.nudge(standing=False)
    assert (setting.engine.waits, setting.engine.stopped) == (True, False)
    assert setting.engine.trouble == "the event loop is blocked by what runs on it"
    assert "setting.gate.wait" in thread_stack(setting.engine.thread)
    setting.gate.set()
    done(held, 1)
    eventually(lambda: not setting.engine.waits)


def test_a_loop_that_the_program_stopped_is_stopped_until_it_runs_again(setting):
    loop = asyncio.new_event_loop()
    setting.engine.use(loop)
    engine = setting.engine
    loop.run_until_complete(asyncio.sleep(0))
    engine.nudge(standing=False)
    assert (engine.waits, engine.stopped, engine.gone) == (True, True, None)
    assert engine.trouble == "the event loop does not run"
    assert engine.thread is None
    loop.run_until_complete(asyncio.sleep(0.01))
    assert not engine.waits
    loop.close()
    engine.nudge(standing=True)
    assert engine.gone == "the event loop on which the handlers run was closed"
    engine.close()
    assert engine.gone is None, "it is not needed any more"


def test_a_loop_for_which_there_is_no_thread_is_tried_again_also_without_messages(
    setting, monkeypatch
):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        held = setting.hold("a", max_runs=1)
        held.owned.drop(Drop.STANDING)
        assert setting.engine.waits
        assert setting.engine.trouble == "the system starts no thread for the event loop"
        setting.engine.nudge(standing=True)
        assert setting.engine.begun == 0
        setting.timers.ring()
        assert not setting.engine.waits, "nothing waits for a queue that is given up"
    setting.engine.nudge(standing=True)
    eventually(lambda: setting.engine.begun)


def test_a_task_of_a_handler_that_exits_does_not_end_our_loop(setting):
    async def makes_one_that_exits(messages, context):
        asyncio.create_task(exits())  # noqa: RUF006
        return Ack()

    async def exits():
        raise SystemExit(1)

    setting.act = makes_one_that_exits
    done(setting.hold("a"), 1)
    setting.act = setting.passes
    done(setting.hold("a", OTHER), 1)
    assert moves(setting.engine)
