"""Each call of a handler has a span that is linked to the one in which its message was sent."""

import asyncio

import pytest
from opentelemetry import trace

from orderly import Ack, Message, ProducerConfig
from orderly.telemetry import TracedProducer, traced_hooks
from tests.support.traces import Telemetry, sent_by
from tests.support.waiting import PATIENCE, eventually

KEYS = ["a", "b", "c"]
COUNT = 9
BAD = b"3"


@pytest.fixture
def telemetry():
    return Telemetry()


@pytest.fixture
def traced(orderly_namesrv, closing, telemetry):
    config = ProducerConfig(send_timeout=PATIENCE)
    return closing(
        TracedProducer(namesrv=orderly_namesrv, config=config, tracer_provider=telemetry.tracing)
    )


def plain(note):
    def act(messages, context):
        return note(messages, context)

    return act


def coroutine(note):
    async def act(messages, context):
        await asyncio.sleep(0.001)
        return note(messages, context)

    return act


@pytest.mark.parametrize("kind", [plain, coroutine])
def test_from_the_producer_through_the_broker_to_the_handler(
    kind, telemetry, traced, topic, start_group
):
    within = {}

    def note(messages, context):
        within[messages[0].body, context.attempt] = trace.get_current_span()
        if messages[0].body == BAD and context.attempt == 1:
            raise ValueError("once")
        return Ack()

    hooks = traced_hooks(tracer_provider=telemetry.tracing, meter_provider=telemetry.metering)
    start_group(kind(note), order="key", hooks=hooks, suspend=0.02)
    sent = {}
    for number in range(COUNT):
        message = Message(topic, str(number).encode(), sharding_key=KEYS[number % len(KEYS)])
        sent[traced.send(message).message_id] = message.body
    eventually(lambda: len(telemetry.spans(f"process {topic}")) == COUNT + 1, within=20)
    eventually(lambda: len(telemetry.spans(f"send {topic}")) == COUNT)
    senders = {s.attributes["messaging.message.id"]: s for s in telemetry.spans(f"send {topic}")}
    for span in telemetry.spans(f"process {topic}"):
        message_id = span.attributes["messaging.message.id"]
        call = (sent[message_id], span.attributes["orderly.attempt"])
        (link,) = span.links
        assert sent_by(link, senders[message_id])
        assert within[call].get_span_context() == span.context
        assert span.attributes.get("error.type") == ("ValueError" if call == (BAD, 1) else None)

    def outcomes():  # counted a moment after their spans ended
        counted = telemetry.points("messaging.client.consumed.messages")
        return {point.attributes["orderly.outcome"]: point.value for point in counted}

    eventually(lambda: outcomes() == {"success": COUNT, "exception": 1})
