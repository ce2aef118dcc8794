"""A run of a queue: how long it goes on, what ends it, and what happens when we are at fault.

The pool and the timer are the test's: a run happens when the test says so, on its own thread.
"""

from types import SimpleNamespace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer import calling, finishing
from orderly.consumer import session as session_module
from orderly.consumer import worker as worker_module
from orderly.consumer.calling import Caller
from orderly.consumer.direct_call import DirectCall
from orderly.consumer.worker import FAIR_RUN, MAX_RUN, YIELD, Worker
from orderly.ordering.drop import Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import ConsumeResult
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message

COUNT = 20


class Setting:
    """A worker whose handler takes `takes` seconds a call, on a clock of the test."""

    def __init__(self, session, monkeypatch):
        self.time, self.takes, self.answer = 1000.0, 0.0, lambda context: ConsumeResult.SUCCESS
        self.calls, self.tasks, self.reopened = [], [], []
        for module in (calling, finishing, worker_module, session_module):
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
        self.held.owned.send_errand(None, DirectCall(message(99)))
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


def test_a_run_ends_when_nothing_is_left(setting):
    assert setting.run() == COUNT
    assert (setting.timers.waiting, setting.tasks) == ([], [])
    assert setting.held.owned.offset == COUNT
    setting.held.owned.pulled([message(COUNT)], COUNT + 1)
    assert setting.held.owned.request_run(), "the claim was given back"


def test_a_run_yields_soon_if_another_queue_waits_for_the_thread(setting):
    setting.takes, setting.worker.pool.crowded = FAIR_RUN / 3.5, True
    assert setting.run() == 4
    assert not setting.held.owned.request_run(), "the claim is kept: nobody else starts it"
    assert setting.timers.seconds == [YIELD]
    setting.timers.ring()
    assert setting.run() == 4
    assert setting.calls == list(range(8))


def test_a_run_that_nobody_waits_for_yields_after_a_minute(setting):
    setting.takes = MAX_RUN / 6
    assert setting.run() == 6
    assert setting.timers.seconds == [YIELD]


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (lambda context: ConsumeResult.SUSPEND, 2.5),
        (lambda context: None, 2.5),
        (lambda context: context.suspend(0.01), 0.01),
        (lambda context: context.suspend(30), 30),
    ],
    ids=["the consumer's", "a failure's", "shortest", "longest"],
)
def test_a_suspended_queue_waits_as_long_as_asked_without_a_thread(answer, seconds, setting):
    setting.answer = answer
    assert setting.run() == 1
    assert setting.tasks == []
    assert setting.timers.seconds == [seconds]
    assert setting.held.owned.messages.wake_at == setting.time + seconds
    assert not setting.held.owned.request_run()
    setting.time += seconds
    setting.timers.ring()
    assert setting.run() == 1
    assert setting.calls == [0, 0]


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
    setting.timers.ring()
    assert setting.run() == COUNT
    assert setting.calls == list(range(COUNT))


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
