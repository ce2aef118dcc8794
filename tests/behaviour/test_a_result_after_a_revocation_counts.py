"""What a handler says after its queue was given away still counts: the lock was kept for it.

Java forgets the result of a dropped queue, so the heir gets the message again.
"""

import pytest

from orderly import ConsumeResult
from orderly.ordering.explain import Why
from tests.support.consuming import Blocking, refused_share, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(4)]  # one a queue
COUNT = 4


def always(result):
    return lambda messages, context: result


def manually(second):
    """Manual commit: number 0 is kept in hand, number 1 gets the answer `second`."""

    def act(messages, context):
        context.auto_commit = False
        return second if int(messages[0].body) == 1 else ConsumeResult.SUCCESS

    return act


CASES = {
    "a success": (0, always(ConsumeResult.SUCCESS), 1),
    "a failure": (0, always(ConsumeResult.SUSPEND), 0),
    "a commit of all in hand": (1, manually(ConsumeResult.COMMIT), 2),
    "kept in hand without a commit": (1, manually(ConsumeResult.SUCCESS), 0),
}


@pytest.mark.parametrize(("at", "act", "first"), CASES.values(), ids=CASES)
def test_the_heir_starts_after_it(at, act, first, producer, topic, start_group, start_member):
    with Blocking(act, at) as handler:
        members = start_group(handler, commit_interval=3600, suspend=30)
        send_numbers(producer, topic, KEYS, COUNT)
        eventually(lambda: len(handler.running) == 4, within=20)
        heir, seen = start_member(patient=True)
        share = eventually(lambda: refused_share(heir), within=20)
        eventually(lambda: share <= leaving(members.consumers), within=20)
    expected = len(share) * (COUNT - first)
    eventually(lambda: len(seen.deliveries) >= expected, within=20)
    assert list(seen.by_key().values()) == [list(range(first, COUNT))] * len(share)
    assert {d.attempt for d in seen.deliveries} == {1}


def queues(consumer, why):
    return {e.queue for e in consumer.explain() if e.why is why}


def leaving(consumers):
    return set().union(*(queues(consumer, Why.LEAVING) for consumer in consumers))
