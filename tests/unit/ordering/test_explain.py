"""Every reason a queue may stand still has its own answer."""

import pytest

from orderly.ordering.drop import Drop
from orderly.ordering.explain import Why, explain
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message


def empty(**settings):
    return OwnedQueue(
        QUEUE, 0, Lease(0.0, 30.0), **({"max_messages": 2, "max_bytes": 9999} | settings)
    )


def polling(**settings):
    queue = empty(**settings)
    queue.pull_gate(0)
    return queue


def at_the_end():
    queue = polling()
    queue.pulled([], 0, end=0)
    queue.pull_gate(0)
    return queue


def loaded():
    queue = polling()
    queue.pulled([message(i, key="k") for i in range(3)], 3, end=9)
    return queue


def full():
    queue = loaded()
    queue.pull_gate(0)
    queue.messages.finish(queue.take(3, 1), Disposition.COMMIT)  # nobody asked to pull again yet
    return queue


def handling():
    queue = loaded()
    queue.take(1, 1)
    return queue


def suspended():
    queue = loaded()
    queue.finish(queue.take(1, 1), Disposition.PUT_BACK, 2, wait=3.0)
    return queue


def paused():
    queue = loaded()
    queue.pause()
    return queue


def uncommitted():
    queue = loaded()
    queue.pull_gate(0)
    queue.finish(queue.take(3, 1), Disposition.KEEP, 1)
    return queue


def dropped(queue, reason):
    queue.drop(reason)
    return queue


@pytest.mark.parametrize(
    ("queue", "why", "seconds"),
    [
        (empty(), Why.NOT_PULLING, None),
        (polling(), Why.PULLING, None),
        (at_the_end(), Why.EMPTY, None),
        (loaded(), Why.WAITING, None),
        (handling(), Why.HANDLING, 2.0),
        (suspended(), Why.SUSPENDED, 2.0),
        (paused(), Why.PAUSED, None),
        (uncommitted(), Why.UNCOMMITTED, None),
        (full(), Why.FLOW_CONTROLLED, None),
        (dropped(handling(), Drop.REVOKED), Why.LEAVING, 2.0),
        (dropped(loaded(), Drop.REVOKED), Why.RELEASING, None),
        (dropped(loaded(), Drop.LOST), Why.LOCK_LOST, None),
    ],
    ids=lambda value: value.name if isinstance(value, Why) else "",
)
def test_each_state_has_its_reason(queue, why, seconds):
    explanation = explain(queue, 3.0)
    assert (explanation.why, explanation.seconds) == (why, seconds)
    assert str(explanation).startswith(str(QUEUE))


def test_a_lease_that_ran_out_is_a_lost_lock_before_anybody_noticed():
    assert explain(loaded(), 30.0).why is Why.LOCK_LOST


def test_it_names_the_message_that_holds_the_queue_up():
    explanation = explain(suspended(), 3.0)
    assert (explanation.offset, explanation.key, explanation.attempt) == (0, "k", 2)
    assert explanation.cached == 3
