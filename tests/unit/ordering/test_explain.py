"""Every reason a queue may stand still has its own answer."""

import pytest

from orderly.ordering.explain import Why, explain
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.pull_window import Limit
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


def failing():
    queue = polling()
    queue.pull_failed("you may not")
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


def keyless():
    queue = loaded()
    queue.no_key = "ValueError: no such account"
    return queue


def ahead(*, running):
    """By key, at its span's end: 0 is stuck, all behind it is finished."""
    queue = polling(by_key=True, max_runs=9, max_span=2)
    queue.pulled([message(n, key="t") for n in range(4)], 4, 9, ["stuck", "a", "a", "a"])
    stuck = queue.take(1, 1)
    queue.finish(queue.take(3, 1), Disposition.COMMIT, 1)
    if not running:
        queue.finish(stuck, Disposition.PUT_BACK, 2, wait=3.0)
    return queue


def dropped(queue, reason):
    queue.drop(reason)
    return queue


@pytest.mark.parametrize(
    ("queue", "why", "seconds"),
    [
        (empty(), Why.NOT_PULLING, None),
        (polling(), Why.PULLING, None),
        (failing(), Why.PULL_FAILS, 3.0),
        (at_the_end(), Why.EMPTY, None),
        (loaded(), Why.WAITING, None),
        (handling(), Why.HANDLING, 2.0),
        (suspended(), Why.SUSPENDED, 2.0),
        (paused(), Why.PAUSED, None),
        (uncommitted(), Why.UNCOMMITTED, None),
        (full(), Why.FLOW_CONTROLLED, None),
        (keyless(), Why.NO_KEY, None),
        (ahead(running=False), Why.SPAN_END, None),
        (ahead(running=True), Why.HANDLING, 2.0),
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


def test_a_running_handler_does_not_hide_that_the_span_has_ended():
    explanation = explain(ahead(running=True), 3.0)
    assert explanation.at_span_end
    assert explanation.limit == Limit.SPAN
    assert str(explanation).endswith(
        f"a handler is running (2.0 s), nothing is pulled: {Limit.SPAN}"
    )
    assert not explain(handling(), 3.0).at_span_end


def test_a_running_handler_does_not_hide_that_the_key_function_fails():
    queue = keyless()
    queue.take(1, 1)
    explanation = explain(queue, 3.0)
    assert explanation.key_error == "ValueError: no such account"
    assert "key function failed at offset 3: ValueError: no such account" in str(explanation)


def test_by_key_the_key_is_what_the_message_is_ordered_by():
    assert explain(ahead(running=True), 3.0).key == "stuck", "not its sharding key"


def test_a_pull_that_fails_is_named_whatever_the_queue_does():
    assert str(explain(failing(), 3)).endswith(
        "cannot be pulled: it is tried again (3.0 s), the last pull failed: you may not"
    )
    busy = handling()
    busy.pull_gate(1)
    busy.pull_failed("you may not")
    assert "a handler is running" in str(explain(busy, 3))
    assert "the last pull failed: you may not" in str(explain(busy, 3))
