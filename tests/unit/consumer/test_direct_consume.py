"""Consumption by hand: what is answered, and that nothing runs which nobody waits for any more."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer import direct_consume as direct_module
from orderly.consumer.direct_consume import DirectConsumption
from orderly.consumer.handler_caller import Caller
from orderly.consumer.workers import Worker
from orderly.errors import LifecycleError
from orderly.model import MessageQueue
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.results import ConsumeResult
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import DirectOutcome
from tests.support.messages import QUEUE, message


class Setting:
    """Consumption by hand on one queue; while it is `busy` nothing runs."""

    def __init__(self, session):
        session.config = ConsumerConfig(allow_direct_consume=True)
        session.client.config = SimpleNamespace(namespace="")
        self.session, self.tasks, self.handled = session, [], []
        self.answer = lambda: ConsumeResult.SUCCESS
        self.worker = Worker(session, Caller(session, self._handle), lambda _: None)
        self.worker.pool = SimpleNamespace(submit=self._submit, crowded=False)
        self.direct = DirectConsumption(session, self.worker.ready)
        owned = OwnedQueue(QUEUE, 5, Lease(now(), 30.0), max_messages=100, max_bytes=10**6)
        self.held = session.add(owned, Subscription("orders"))
        self.busy = False

    def _handle(self, messages, context):
        self.handled.append(messages[0].queue_offset)
        return self.answer()

    def _submit(self, task):
        self.tasks.append(task)
        if not self.busy:
            task()


@pytest.fixture
def setting(session):
    return Setting(session)


def raising():
    raise ValueError("no")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (lambda: ConsumeResult.SUCCESS, DirectOutcome.SUCCESS),
        (lambda: ConsumeResult.SUSPEND, DirectOutcome.LATER),
        (lambda: ConsumeResult.COMMIT, DirectOutcome.COMMIT),
        (lambda: ConsumeResult.ROLLBACK, DirectOutcome.ROLLBACK),
        (lambda: None, DirectOutcome.RETURN_NULL),
        (raising, DirectOutcome.THROW_EXCEPTION),
    ],
    ids=["success", "suspend", "commit", "rollback", "none", "raise"],
)
def test_the_answer_is_told_and_nothing_moves(answer, outcome, setting):
    setting.answer = answer
    result = setting.direct.consume(message(3))
    assert (result.result, setting.handled) == (outcome, [3])
    assert ("ValueError" in result.remark) == (answer is raising)
    owned = setting.held.owned
    assert (owned.offset, owned.messages.count, owned.idle) == (5, 0, True)


def test_without_keys_the_broker_is_not_told_the_text_of_a_failure(setting):
    setting.answer, setting.session.redacts = raising, True
    assert setting.direct.consume(message(3)).remark == "ValueError"


def test_a_queue_of_another_member_is_refused(setting):
    other = MessageQueue("orders", "broker-a", 1)
    with pytest.raises(LifecycleError, match="ask the member that holds it"):
        setting.direct.consume(message(3, queue=other))


def test_what_did_not_run_in_time_does_not_run_later(setting, monkeypatch):
    monkeypatch.setattr(direct_module, "_PATIENCE", 0.01)
    setting.busy = True
    with pytest.raises(TimeoutError, match="no worker is free"):
        setting.direct.consume(message(3))
    (task,) = setting.tasks
    task()
    assert setting.handled == []
    assert setting.held.owned.idle


def test_a_queue_that_is_given_up_meanwhile_runs_nothing(setting, monkeypatch):
    def drop_first(task):
        setting.held.owned.drop(Drop.REVOKED)
        task()

    monkeypatch.setattr(direct_module, "_PATIENCE", 0.01)
    setting.worker.pool.submit = drop_first
    with pytest.raises(LifecycleError, match="released"):
        setting.direct.consume(message(3))
    assert setting.handled == []


def test_by_key_it_waits_for_its_own_key_only(setting, monkeypatch):
    """The handler of another key, which runs all the time, does not hold it up."""
    lease = Lease(now(), 30.0)
    other = replace(QUEUE, queue_id=1)
    owned = OwnedQueue(other, 0, lease, max_messages=9, max_bytes=999, by_key=True, max_runs=2)
    setting.session.add(owned, Subscription("orders"))
    owned.pulled([message(0, "a", other), message(1, "b", other)], 2, keys=["a", "b"])
    busy = owned.take(1, now())
    assert busy.key == "a"
    setting.direct.consume(message(7, "b", other))
    assert setting.handled == [7, 1], "before what waits in its lane, beside the other key"
    monkeypatch.setattr(direct_module, "_PATIENCE", 0.01)
    with pytest.raises(TimeoutError, match="a handler call with the key is running"):
        setting.direct.consume(message(8, "a", other))
    assert setting.handled == [7, 1]
