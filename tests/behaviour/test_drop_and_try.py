"""A dropped key's messages are settled without running; trying them leaves everything as it is."""

import pytest
from structlog.testing import capture_logs

from orderly import Ack, ConsumerConfig, Fail, Park
from orderly.monitoring.parked import ParkedMessages
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually, patient_consumer

BAD = "bad"


class Account:
    """Parks one key until it is mended; fails for odd numbers when it is tried."""

    dry_run = True

    def __init__(self):
        self.applied, self.tried, self.mended = [], [], False

    def __call__(self, messages, context):
        (message,) = messages
        if context.dry_run:
            self.tried.append((message.queue_offset, context.replayed))
            return Fail("odd") if int(message.body) % 2 else Ack()
        if not self.mended:
            return Park("no such account")
        self.applied.append(message.queue_offset)
        return Ack()


@pytest.fixture
def parked_key(producer, topic, group, orderly_namesrv, closing, parks):
    """A member with a key parked; returns (consumer, queue, offsets)."""

    def start(handler):
        config = ConsumerConfig(order="key", consume_from="first")
        consumer = patient_consumer(group, handler, namesrv=orderly_namesrv, config=config)
        closing(consumer.subscribe(topic))
        stored = send_numbers(producer, topic, [BAD], 4)
        queue, offsets = stored[0].queue, [s.queue_offset for s in stored]
        eventually(lambda: parks.parked(queue, BAD) == offsets, within=20)
        eventually(lambda: _counted(consumer) == len(offsets))  # a moment after they are stored
        return consumer, queue, offsets

    return start


def _counted(consumer):
    return sum(key.messages for keys in consumer.parked().values() for key in keys)


def test_a_dropped_key_goes_on_with_what_comes_next(
    parked_key, producer, topic, parks, client, group
):
    account = Account()
    consumer, queue, _ = parked_key(account)
    (report,) = ParkedMessages(client, group).list(BAD).keys
    assert (report.messages, report.untried) == (4, 3), "what is good is counted, too"
    account.mended = True
    with capture_logs() as logs:
        result = parks.carried_out(queue, "drop", BAD)
    assert (result.settled, result.reason, result.failed_at) == (4, None, None)
    (event,) = [e for e in logs if e["event"] == "key.dropped"]
    assert (event["key"], event["settled"]) == (BAD, 4)
    assert not consumer.parked()
    (later,) = send_numbers(producer, topic, [BAD], 1, first=4)
    eventually(lambda: account.applied == [later.queue_offset])


def test_trying_reports_each_message_and_changes_nothing(parked_key, producer, topic, parks):
    account = Account()
    consumer, queue, offsets = parked_key(account)
    before = consumer.parked()
    result = parks.carried_out(queue, "try", BAD)
    assert result.outcomes == tuple(zip(offsets, ["ok", "odd", "ok", "odd"], strict=True))
    assert (result.settled, result.reason) == (4, None)
    assert account.tried == [(offset, True) for offset in offsets]
    assert consumer.parked() == before
    account.mended = True
    assert parks.carried_out(queue, "release", BAD).settled == 4
    assert account.applied == offsets


def test_a_handler_that_does_not_say_so_is_never_tried(parked_key, parks):
    calls = []

    def handle(messages, context):
        calls.append(context.dry_run)
        return Park("no such account")

    _, queue, _ = parked_key(handle)
    result = parks.carried_out(queue, "try", BAD)
    assert "dry_run" in result.reason
    assert calls == [False]
