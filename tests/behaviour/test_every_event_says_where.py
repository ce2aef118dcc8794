"""Every consumer event carries group, topic, broker, queue id, offset, key and attempt."""

import pytest
import structlog

from orderly import ConsumeResult
from orderly.log import QUEUE_FIELDS
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually


@pytest.fixture
def events():
    with structlog.testing.capture_logs() as captured:
        yield captured
    structlog.reset_defaults()


def test_the_set_of_bound_fields(events, producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 3)

    def act(messages, context):
        if context.attempt == 1 and int(messages[0].body) == 1:
            raise ValueError("once")
        return ConsumeResult.SUCCESS

    member, seen = start_member(act, suspend=0.05)
    eventually(lambda: 2 in seen.numbers("a"), within=20)
    member.close()
    of_consumer = [event for event in events if event.get("logger") == "orderly.consumer"]
    texts = {event["event"] for event in of_consumer}
    assert {"queue.assigned", "handler.raised", "queue.suspended", "queue.released"} <= texts
    for event in of_consumer:
        assert set(QUEUE_FIELDS) <= set(event), event
    raised = next(event for event in of_consumer if event["event"] == "handler.raised")
    assert (raised["topic"], raised["broker"], raised["key"]) == (topic, "broker-a", "a")
    assert (raised["offset"], raised["attempt"]) == (1, 1)
    assert "once" in raised["error"]
