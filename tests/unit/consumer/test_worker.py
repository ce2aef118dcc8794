"""A run of a queue: how long it goes on, what ends it, and what happens when we are at fault.

The pool and the timer are the test's: a run happens when the test says so, on its own thread.
"""

import threading
from types import SimpleNamespace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer import finishing, handler_caller
from orderly.consumer import session as session_module
from orderly.consumer import workers as worker_module
from orderly.consumer.direct_consume import DirectCall
from orderly.consumer.handler_caller import Caller
from orderly.consumer.workers import MAX_RUN, YIELD, Worker
from orderly.ordering.lane import Turn
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.results import ConsumeResult
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually

COUNT = 20


class Setting:
    """A worker whose handler takes `takes` seconds a call, on a clock of the test."""

    def __init__(self, session, monkeypatch):
        self.time, self.takes, self.answer = 1000.0, 0.0, lambda context: ConsumeResult.SUCCESS
        self.calls, self.tasks, self.reopened = [], [], []
        for module in (handler_caller, finishing, worker_module, session_module):
            monkeypatch.setattr(module, "now", lambda: self.time)
        session.config = ConsumerConfig(suspend=2.5)
        self.timers = session.client.schedule
        self.worker = Worker(session, Caller(session, self._handle), self.reopened.append)
        self.worker.pool = SimpleNamespace(submit=self.tasks.append, crowded=False)
        lease = Lease(self.time, 1000.0)
        owned = OwnedQueue(QUEUE, 0, lease, max_messages=100, max_bytes=10**6)
        self.held = session.add(owned, Subscription("orders"))
        assert owned.pulled([message(offset) for offset in range(COUNT)], COUNT)
        self.worker.ready(self.held)

    def by_hand(self):
        """Have message 99 handled as an administrator asks for it."""
        self.held.owned.want_turn(None, Turn(DirectCall(message(99))))
        self.worker.ready(self.held)

    def _handle(self, messages, context):
        self.calls += [m.queue_offset for m in messages]
        self.time += self.takes
        return self.answer(context)

    def run(self):
        """Do the run that was submitted; returns how many messages were handled."""
        before = len(self.calls)
        self.tasks.pop()()
        return len(self.calls) - before


@pytest.fixture
def setting(session, monkeypatch):
    return Setting(session, monkeypatch)


def test_a_run_that_nobody_waits_for_yields_after_a_minute(setting):
    setting.takes = MAX_RUN / 6
    assert setting.run() == 6
    assert setting.timers.seconds == [YIELD]


def test_a_dropped_queue_is_not_resumed_but_handed_to_the_rebalancer(setting, session):
    asked = []
    session.attention = lambda: asked.append("round")

    def drop(context):
        setting.held.owned.drop(Drop.REVOKED)
        return ConsumeResult.SUSPEND

    setting.answer = drop
    assert setting.run() == 1
    assert (setting.timers.waiting, asked) == ([], ["round"])


def test_after_a_defect_of_ours_the_queue_goes_on_with_the_same_message(setting):
    def defect(held, batch, key):
        raise RuntimeError("made by the test")

    caller, setting.worker._caller = setting.worker._caller, SimpleNamespace(call=defect)
    with pytest.raises(RuntimeError):
        setting.run()
    assert (setting.timers.seconds, setting.held.owned.idle) == ([2.5], True)
    setting.worker._caller = caller
    assert not setting.held.owned.request_run(), "it waits as after a failure"
    setting.time += 2.5
    setting.timers.ring()
    assert setting.run() == COUNT
    assert setting.calls == list(range(COUNT))


def test_a_run_for_which_no_thread_can_be_started_begins_when_one_can(setting):
    def refuse(task):
        raise RuntimeError("can't start new thread")

    setting.run()
    setting.worker.pool.submit = refuse
    setting.held.owned.pulled([message(COUNT)], COUNT + 1)
    setting.worker.ready(setting.held)
    setting.timers.ring()
    assert setting.timers.seconds == [2.5], "one try at a time"
    setting.worker.pool.submit = setting.tasks.append
    setting.timers.ring()
    assert setting.run() == 1
    assert setting.held.owned.offset == COUNT + 1
    setting.held.owned.pulled([message(COUNT + 1)], COUNT + 2)
    assert setting.held.owned.request_run(), "no claim was lost"


def test_a_queue_that_is_given_up_meanwhile_needs_no_thread_any_more(setting):
    def refuse(task):
        raise RuntimeError("can't start new thread")

    setting.run()
    setting.worker.pool.submit = refuse
    setting.held.owned.pulled([message(COUNT)], COUNT + 1)
    setting.worker.ready(setting.held)
    setting.held.owned.drop(Drop.CLOSING)
    setting.timers.ring()
    assert (setting.timers.waiting, setting.held.owned.idle) == ([], True)


def test_what_is_consumed_by_hand_runs_between_two_batches(setting):
    def hand(context):
        if len(setting.calls) == 3:
            setting.by_hand()
        return ConsumeResult.SUCCESS

    setting.answer = hand
    setting.run()
    assert setting.calls == [0, 1, 2, 99, *range(3, COUNT)]
    assert setting.tasks == [], "in the run that was under way"


def test_on_an_idle_queue_it_starts_a_run(setting):
    setting.run()
    setting.by_hand()
    setting.run()
    assert setting.calls[COUNT:] == [99]


# --- by key ------------------------------------------------------------------------------------


@pytest.fixture
def lanes(setting, hold):
    """A queue of three keys that may have two runs; the setting's own queue is worked off."""
    setting.run()
    setting.calls.clear()
    held = hold(by_key=True, max_runs=2, asked_at=setting.time)
    held.owned.pulled([message(n) for n in range(6)], 6, None, list("abcabc"))
    setting.worker.ready(held)
    return held


def test_a_run_that_finds_more_than_it_takes_starts_another(setting, lanes):
    assert len(setting.tasks) == 1

    def look(context):
        found.append((context.key, len(setting.tasks)))
        return ConsumeResult.SUCCESS

    found = []
    setting.answer = look
    setting.run()
    assert found[0] == ("a", 1), "the second run is asked for before the first handler is called"
    assert {tasks for _, tasks in found} == {1}, "and never a third"
    setting.run()
    assert lanes.owned.offset == 6


def test_a_defect_when_the_pulling_is_reopened_costs_no_run_and_repeats_no_message(setting, lanes):
    def defect(held):
        setting.worker._reopened = setting.reopened.append
        raise RuntimeError("made by the test")

    lanes.owned.limit(3, 10**6)
    lanes.owned.pull_gate(setting.time)
    setting.worker._reopened = defect
    with pytest.raises(RuntimeError):
        setting.run()
    while setting.tasks:
        setting.run()
    setting.timers.ring()
    while setting.tasks:
        setting.run()
    assert sorted(setting.calls) == list(range(6))
    lanes.owned.pulled([message(n) for n in range(6, 10)], 10, None, list("abcd"))
    claimed = []
    for _ in range(3):
        claimed.append(lanes.owned.request_run())
        lanes.owned.begin_run()
    assert claimed == [True, True, False]


def test_a_defect_after_the_result_was_applied_does_not_undo_it(setting, lanes):
    """The log's, for one: by then another run may have the key's next message in work."""

    class Broken:
        def info(self, *args, **fields):
            raise OSError("the disk is full")

    def answer(context):
        lanes.log = Broken()
        return context.suspend(0.01)

    setting.answer = answer
    with pytest.raises(OSError, match="full"):
        setting.run()
    assert lanes.owned.messages.suspended == 1
    assert lanes.owned.messages.unfinished() == list(range(6))
    assert any(each == pytest.approx(0.01) for each in setting.timers.seconds), "it will wake"


# --- whether threads begin what waits -------------------------------------------------------------


@pytest.fixture
def engine(session):
    """A worker with a pool of real threads, two at most."""
    session.config = ConsumerConfig(concurrency=2)
    engine = Worker(session, Caller(session, lambda *_: ConsumeResult.SUCCESS), lambda held: None)
    yield engine
    engine.close()


def refuse(self):
    raise RuntimeError("can't start new thread")


def test_without_any_thread_it_waits_until_there_is_one(engine, hold, session, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        held = hold()
        held.owned.pulled([message(0)], 1)
        engine.ready(held)
        assert (engine.waits, engine.begun) == (True, 0)
        session.client.schedule.ring()
        assert engine.waits
        held.owned.drop(Drop.STANDING)
        session.client.schedule.ring()
        assert not engine.waits, "nothing waits for a queue that is given up"
        engine.nudge(standing=True)
        assert engine.begun == 0
    engine.nudge(standing=False)
    assert engine.pool.threads == 0, "without messages no thread is tried"
    engine.nudge(standing=True)
    eventually(lambda: engine.begun == 1)


def test_what_waits_for_busy_threads_does_not_count_as_long_as_no_more_may_be(engine, hold):
    gate, busy = threading.Event(), threading.Semaphore(0)

    def block():
        busy.release()
        gate.wait(30)

    for _ in range(3):
        engine.pool.submit(block)
    assert busy.acquire(timeout=30)
    assert busy.acquire(timeout=30)
    assert (engine.waits, engine.begun) == (False, 2)
    gate.set()
    eventually(lambda: engine.begun == 3)


def test_what_waits_although_more_threads_may_be_counts(engine, monkeypatch):
    gate, busy = threading.Event(), threading.Event()

    def block():
        busy.set()
        gate.wait(30)

    engine.pool.submit(block)
    assert busy.wait(30)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        engine.pool.submit(block)
    assert (engine.waits, engine.begun) == (True, 1)
    engine.nudge(standing=True)
    gate.set()
    eventually(lambda: engine.begun == 2)
    assert not engine.waits
