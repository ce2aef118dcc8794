"""A TracedProducer: a span for each message, whatever becomes of it, and its context in it.

It stands here for the sake of the broker in memory.
"""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.trace import SpanKind

from orderly.config import ProducerConfig
from orderly.errors import BrokerBusy, ConfigError, InvalidMessage, SendFailed
from orderly.message import Message
from orderly.telemetry import TracedProducer
from tests.support.traces import Telemetry

PATIENCE = 30.0
NAME = "send T"
TOO_LARGE = "x" * (4 * 2**20 + 1)


def message(body: str = "m", key: str | None = "k", **more) -> Message:
    return Message("T", body.encode(), sharding_key=key, **more)


@pytest.fixture
def telemetry():
    return Telemetry()


@pytest.fixture
def producer(client, broker, telemetry):
    config = ProducerConfig(retries=0)
    made = TracedProducer(client=client, config=config, tracer_provider=telemetry.tracing).start()
    yield made
    broker.let_go()
    made.close(timeout=PATIENCE)


@pytest.fixture
def the_span(telemetry, until):
    """The only span, once it has ended."""

    def get():
        until(lambda: telemetry.spans(NAME))
        (span,) = telemetry.spans(NAME)
        return span

    return get


def carried(broker, body=b"m"):
    return broker.properties[body].get("traceparent")


def parent_of(span):
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_a_message_carries_the_span_in_which_it_is_sent(producer, broker, telemetry, the_span):
    with telemetry.tracer.start_as_current_span("request") as request:
        result = producer.send(message(tags="new"))
    span = the_span()
    assert carried(broker) == parent_of(span)
    assert span.parent.span_id == request.context.span_id
    assert span.kind is SpanKind.PRODUCER
    assert span.status.is_ok
    assert dict(span.attributes) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "T",
        "messaging.destination.partition.id": f"a/{result.queue.queue_id}",
        "messaging.message.id": result.message_id,
        "messaging.message.body.size": 1,
        "messaging.rocketmq.message.tag": "new",
        "messaging.rocketmq.message.type": "fifo",
    }


def test_the_span_lasts_until_the_answer(producer, broker, telemetry, the_span):
    broker.holding = True
    future = producer.submit(message())
    broker.wait_for_requests(1)
    assert telemetry.spans(NAME) == []
    broker.let_go()
    future.result(PATIENCE)
    assert the_span().status.is_ok


def test_a_coroutines_message_is_traced_too(producer, broker, the_span):
    asyncio.run(producer.asend(message()))
    assert carried(broker) == parent_of(the_span())


def test_a_message_without_an_answer_is_traced_until_it_is_on_its_way(producer, client, the_span):
    producer.send_oneway(message(key=None))
    (command,) = client.oneways
    assert parent_of(the_span()) in str(command.ext)


def test_what_fails_later_ends_the_span_as_an_error(producer, broker, the_span):
    broker.script = lambda _: BrokerBusy("busy", code=2)
    with pytest.raises(SendFailed):
        producer.send(message())
    span = the_span()
    assert span.attributes["error.type"] == "SendFailed"
    assert not span.status.is_ok


@pytest.mark.parametrize(
    ("send", "error"),
    [
        (lambda producer: producer.send(message(body=TOO_LARGE)), InvalidMessage),
        (lambda producer: asyncio.run(producer.asend(message(body=TOO_LARGE))), InvalidMessage),
        (lambda producer: producer.send_oneway(message(key="k")), ConfigError),
    ],
)
def test_what_is_refused_at_once_ends_the_span_too(send, error, producer, the_span):
    with pytest.raises(error):
        send(producer)
    assert the_span().attributes["error.type"] == error.__name__


def test_a_message_taken_back_ends_its_span(producer, broker, telemetry, until):
    broker.holding = True
    producer.submit(message("first"))
    broker.wait_for_requests(1)
    waiting = producer.submit(message("second"))
    assert waiting.cancel()
    until(lambda: telemetry.spans(NAME))
    assert telemetry.spans(NAME)[0].attributes["error.type"] == "CancelledError"


def test_what_is_no_message_is_refused_as_ever(producer, telemetry):
    with pytest.raises(InvalidMessage):
        producer.send("text")
    assert telemetry.spans(NAME) == []


def test_a_message_without_room_for_the_context_is_sent_without(producer, broker, the_span):
    producer.send(message(properties={"long": "x" * 32380}))
    assert carried(broker) is None
    assert the_span().status.is_ok


def test_a_sharding_key_is_shown_only_if_asked_for(producer, client, telemetry, until):
    producer.send(message(key="secret"))
    until(lambda: telemetry.spans(NAME))
    assert "secret" not in telemetry.spans(NAME)[0].to_json()
    with TracedProducer(
        "other", client=client, sharding_keys=True, tracer_provider=telemetry.tracing
    ) as open_one:
        open_one.send(message(key="secret"))
    until(lambda: len(telemetry.spans(NAME)) == 2)
    assert telemetry.spans(NAME)[1].attributes["messaging.rocketmq.message.group"] == "secret"


def test_without_a_tracer_the_program_sends_as_ever(client, broker):
    with TracedProducer("untraced", client=client) as untraced:
        untraced.send(message())
    assert carried(broker) is None
