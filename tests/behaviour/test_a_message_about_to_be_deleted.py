"""What waits so long that the broker is going to delete it is told of, and its key is parked."""

import time

import pytest
from structlog.testing import capture_logs

from orderly import Ack, ConsumeResult, Suspend
from orderly.consumer import retention, runtime
from orderly.consumer.finishing import EXPIRES
from orderly.ordering.explain import Why
from orderly.protocol.park_record import Parked
from tests.support.consuming import send_numbers
from tests.support.topics import dead_numbers
from tests.support.waiting import await_visible, eventually

KEYS = ["stuck", *(f"k{number}" for number in range(7))]
COUNT = 3
HOUR = 3600.0


class Clock:
    """`time` of the module that looks at ages, some hours ahead."""

    ahead = 0.0

    def time(self):
        return time.time() + self.ahead


@pytest.fixture
def clock(monkeypatch):
    """Ages are looked at ten times a second; the broker is said to keep messages for ten hours."""
    clock = Clock()
    monkeypatch.setattr(runtime, "AGES_INTERVAL", 0.1)
    monkeypatch.setattr(runtime, "FIRST_KEEP", 0.1)
    monkeypatch.setattr(retention, "keeps_for", lambda session, held: 10 * HOUR)
    monkeypatch.setattr(retention, "time", clock)
    return clock


def act(messages, context):
    return Suspend(0.2) if context.key == "stuck" else Ack()


async def act_async(messages, context):
    return act(messages, context)


def state(group, queue):
    """What the owner says of a queue; None while nobody holds it."""
    told = (e for member in group.consumers for e in member.explain())
    return next((e for e in told if e.queue == queue and e.offset is not None), None)


@pytest.mark.parametrize("act", [act, act_async], ids=["thread", "async"])
def test_its_key_is_parked_in_order_while_the_broker_still_has_it(
    act, clock, producer, topic, start_group, parks
):
    with capture_logs() as logs:
        group = start_group(act, order="key")
        stored = send_numbers(producer, topic, KEYS, COUNT)
        queue, stuck = stored[0].queue, [s.queue_offset for s in stored[:: len(KEYS)]]
        eventually(lambda: group.seen.numbers("stuck"))
        clock.ahead = 6 * HOUR
        eventually(lambda: (state(group, queue) or Missing).why is Why.EXPIRING)
        reasons = [r for member in group.consumers for r in member.health().reasons]
        assert any("can delete it" in reason for reason in reasons)
        assert set(group.seen.numbers("stuck")) == {0}
        assert parks.parked(queue, "stuck") == [], "not yet"
        clock.ahead = 8 * HOUR
        eventually(lambda: (state(group, queue) or Missing).keys_parked == 1)
    await_visible(parks.client)
    eventually(lambda: parks.parked(queue, "stuck") == stuck)
    assert set(group.seen.numbers("stuck")) == {0}, "nothing of it runs once it is parked"
    first = next(r for r in parks.records(queue) if isinstance(r, Parked))
    attempts = len(group.seen.numbers("stuck"))
    assert (first.details.reason, first.details.attempts) == (EXPIRES, attempts)
    told = [e for e in logs if e["event"] == "message.expiring" and e["offset"] == stuck[0]]
    assert told
    assert all(e["log_level"] == "error" for e in told)
    eventually(lambda: all(len(group.seen.numbers(key)) == COUNT for key in KEYS[1:]))


class Missing:
    """Of a queue that nobody holds."""

    why = keys_parked = None


def test_where_it_is_to_block_it_is_told_and_waits(clock, producer, topic, start_group):
    group = start_group(act, order="key", on_expiring="block")
    (stored,) = send_numbers(producer, topic, KEYS[:1], 1)
    clock.ahead = 9 * HOUR
    eventually(lambda: (state(group, stored.queue) or Missing).why is Why.EXPIRING)
    before = len(group.seen.numbers("stuck"))
    eventually(lambda: len(group.seen.numbers("stuck")) > before + 1)
    assert state(group, stored.queue).keys_parked == 0


@pytest.mark.parametrize("answer", [ConsumeResult.SUSPEND, ConsumeResult.ROLLBACK], ids=str)
@pytest.mark.parametrize("order", ["queue", "key"])
def test_as_a_dead_letter_it_is_kept_and_its_queue_goes_on(
    order, answer, clock, client, producer, topic, group, start_group
):
    def act(messages, context):
        if messages[0].body != b"0":
            return Ack()
        context.suspend(0.2)
        context.auto_commit = False
        return answer

    settings = {"on_expiring": "dead_letter", "batch_size": 2, "patient": True}
    started = start_group(act, order=order, **settings)
    send_numbers(producer, topic, ["stuck"], COUNT)
    eventually(lambda: started.seen.numbers("stuck"))
    assert COUNT - 1 not in started.seen.numbers("stuck")
    clock.ahead = 8 * HOUR
    eventually(lambda: started.seen.numbers("stuck")[-1] == COUNT - 1)
    assert dead_numbers(client, group, 1) == [0]
