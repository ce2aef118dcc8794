"""Every event of a consumer, and of a listener, carries all fields that say where."""

import pytest

from orderly import Ack, ConsumeResult, Listener
from orderly.log import QUEUE_FIELDS
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually


@pytest.fixture
def of(events):
    """The events of a logger, each with all fields; there are those that were expected."""

    def of(logger, *expected):
        found = [event for event in events if event.get("logger") == logger]
        assert set(expected) <= {event["event"] for event in found}
        assert [event for event in found if not set(QUEUE_FIELDS) <= set(event)] == []
        return found

    return of


def first(events, name):
    return next(event for event in events if event["event"] == name)


def test_a_consumers(of, producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 3)

    def act(messages, context):
        if context.attempt == 1 and int(messages[0].body) == 1:
            raise ValueError("once")
        return ConsumeResult.SUCCESS

    member, seen = start_member(act, suspend=0.05)
    eventually(lambda: 2 in seen.numbers("a"), within=20)
    member.close()
    expected = ("queue.assigned", "handler.raised", "queue.suspended", "queue.released")
    raised = first(of("orderly.consumer", *expected), "handler.raised")
    assert (raised["topic"], raised["broker"], raised["key"]) == (topic, "broker-a", "a")
    assert (raised["offset"], raised["attempt"]) == (1, 1)
    assert "once" in raised["error"]


def test_a_listeners_and_a_parked_keys(of, producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 3)
    calls = []

    def ship(message, attempt):
        calls.append(int(message.body))
        if calls == [0, 1]:
            raise OSError("once")
        if message.body == b"2":
            raise ValueError("no such account")
        return Ack()

    listener = Listener(ship, on_error={ValueError: "park_key"})
    member, _ = start_member(recorder=listener, order="key", suspend=0.05)
    eventually(lambda: "key.parked" in {e["event"] for e in of("orderly.consumer")}, within=20)
    member.close()
    parked = first(of("orderly.consumer", "queue.assigned"), "key.parked")
    retried = of("orderly.listener", "message.retry")
    places = [(e["topic"], e["key"], e["offset"]) for e in [*retried, parked]]
    assert places == [(topic, "a", 1), (topic, "a", 2)]
