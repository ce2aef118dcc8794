"""Consumption by hand: what is answered, and that nothing runs which nobody waits for any more."""

from types import SimpleNamespace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer import direct as direct_module
from orderly.consumer.calling import Caller
from orderly.consumer.direct import DirectConsumption
from orderly.consumer.session import now
from orderly.errors import LifecycleError
from orderly.model import MessageQueue
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.results import ConsumeResult
from orderly.protocol.direct_result import DirectOutcome
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message


class Setting:
    """Consumption by hand on one queue; `lane` holds what the queue's run is to do."""

    def __init__(self, session):
        session.config = ConsumerConfig(allow_direct_consume=True)
        session.client.config = SimpleNamespace(namespace="")
        self.session, self.lane, self.handled = session, [], []
        self.answer = lambda: ConsumeResult.SUCCESS
        worker = SimpleNamespace(submit_direct=self._submit)
        self.direct = DirectConsumption(session, worker, Caller(session, self._handle))
        owned = OwnedQueue(QUEUE, 5, Lease(now(), 30.0), max_messages=100, max_bytes=10**6)
        self.held = session.add(owned, Subscription("orders"))
        self.busy = False

    def _handle(self, messages, context):
        self.handled.append(messages[0].queue_offset)
        return self.answer()

    def _submit(self, held, task):
        self.lane.append(task)
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


def test_it_is_refused_unless_it_is_allowed(setting, session):
    session.config = ConsumerConfig()
    assert setting.direct.consume(message(3)) is None
    assert setting.lane == []


def test_a_queue_of_another_member_is_refused(setting):
    other = MessageQueue("orders", "broker-a", 1)
    with pytest.raises(LifecycleError, match="ask the member that holds it"):
        setting.direct.consume(message(3, queue=other))


def test_what_did_not_run_in_time_does_not_run_later(setting, monkeypatch):
    monkeypatch.setattr(direct_module, "_PATIENCE", 0.01)
    setting.busy = True
    with pytest.raises(TimeoutError):
        setting.direct.consume(message(3))
    (task,) = setting.lane
    task()
    assert setting.handled == []


def test_a_queue_that_is_given_up_meanwhile_runs_nothing(setting):
    def drop_first(held, task):
        held.owned.drop(Drop.REVOKED)
        task()

    setting.direct._worker.submit_direct = drop_first
    with pytest.raises(LifecycleError, match="given up"):
        setting.direct.consume(message(3))
    assert setting.handled == []
