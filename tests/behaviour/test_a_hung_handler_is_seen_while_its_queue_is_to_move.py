"""A handler hangs, and its queue is to move: the monitor goes on naming who holds it up, and how.

It stays BLOCKED from before another member joins until the handler ends.
"""

import pytest

from orderly import Ack
from orderly.monitoring.backlog.states import QueueState
from tests.support.consuming import Blocking, refused_share, send_numbers
from tests.support.snapshots import Surveyed
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(8)]
HANGS = 1  # the number of the message whose handler does not return
TIMEOUT = 1.0  # seconds


@pytest.fixture
def handler(closing):
    """Asks for `closing` so that it is released before the members are closed."""
    with Blocking(lambda *_: Ack(), at=HANGS) as handler:
        yield handler


@pytest.fixture
def seen(client, group, topic):
    """The monitor's row of each queue."""
    surveyed = Surveyed(client, group, topic)
    return lambda: {row.queue: row for row in surveyed.rows()}


@pytest.mark.parametrize("order", ["key", "queue"])
def test_it_is_blocked_until_the_handler_ends(
    order, handler, producer, topic, group, start_member, seen, orderly
):
    settings = {"order": order, "handler_timeout": TIMEOUT}
    owner, recorder = start_member(handler, **settings)
    send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: len(handler.running) == 4, within=20)

    def blocked(queues):
        rows = [row for queue, row in seen().items() if queue in queues]
        return len(rows) == len(queues) and {row.state for row in rows} == {QueueState.BLOCKED}

    eventually(lambda: blocked(handler.running), within=20)
    newcomer, _ = start_member(recorder=recorder, patient=True, **settings)
    share = eventually(lambda: refused_share(newcomer), within=20)
    eventually(lambda: not share & set(owner.assignment), within=20)

    assert blocked(handler.running), "who is asked when does not matter"
    for queue, row in seen().items():
        assert row.owner == owner.client_id
        assert row.cause.startswith(f"{owner.client_id}: a handler has run for ")
        assert row.backlog
        assert row.head.offset >= row.committed
        if queue in share:
            assert "with offset" in row.cause
    code, line, _ = orderly("backlog", "check", group)
    assert (code, f"BLOCKED {len(handler.running)} queues" in line) == (2, True), line
    told = " ".join(orderly("backlog", "explain", group)[1].split())
    assert "is in order" not in told
    assert "more than it can use" not in told, "the newcomer waits for what is its own"

    handler.release()
    eventually(lambda: set(newcomer.assignment) == share, within=20)
    eventually(lambda: not any(row.backlog for row in seen().values()), within=20)
    assert {row.state for row in seen().values()} == {QueueState.OK}


def test_a_handler_that_merely_ends_late_blocks_nothing(
    handler, producer, topic, start_member, seen
):
    owner, recorder = start_member(handler, order="queue")
    send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: len(handler.running) == 4, within=20)
    newcomer, _ = start_member(recorder=recorder, patient=True, order="queue")
    share = eventually(lambda: refused_share(newcomer), within=20)
    eventually(lambda: not share & set(owner.assignment), within=20)
    for row in seen().values():
        assert (row.state, row.owner) == (QueueState.OK, owner.client_id), row.cause
