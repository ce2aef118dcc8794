"""The hooks of a traced consumer: one span and one measurement for each call of the handler."""

import asyncio
from dataclasses import replace

import pytest
from opentelemetry import trace

from orderly.consumer.hooks import Consumed, ConsumerHooks
from orderly.consumer.statistics import ReturnType
from orderly.ordering.context import ConsumeContext
from orderly.ordering.results import Ack
from orderly.telemetry import traced_hooks
from tests.support.messages import QUEUE, message
from tests.support.traces import Telemetry, sent_by

NAME = "process orders"
BATCH = (message(7, "secret"),)
SUCCESS = Consumed(ReturnType.SUCCESS, Ack(), 0.25)


@pytest.fixture
def telemetry():
    return Telemetry()


@pytest.fixture
def hooks(telemetry):
    return traced_hooks(tracer_provider=telemetry.tracing, meter_provider=telemetry.metering)


@pytest.fixture
def context():
    return ConsumeContext(QUEUE, "group", attempt=2)


def run(hooks, context, consumed=SUCCESS, messages=BATCH):
    hooks.before(messages, context)
    within = trace.get_current_span()
    hooks.after(messages, context, consumed)
    return within


def test_the_span_is_current_while_the_handler_runs_and_says_which_call_it_was(
    telemetry, hooks, context
):
    within = run(hooks, context)
    (span,) = telemetry.spans(NAME)
    assert within.get_span_context() == span.context
    assert not trace.get_current_span().get_span_context().is_valid
    assert span.kind is trace.SpanKind.CONSUMER
    assert span.status.is_ok
    assert dict(span.attributes) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "broker-a/0",
        "messaging.consumer.group.name": "group",
        "messaging.message.id": "id-7",
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.type": "fifo",
        "orderly.offset": 7,
        "orderly.attempt": 2,
        "orderly.outcome": "success",
    }


def test_a_sharding_key_is_shown_only_if_asked_for(telemetry, context):
    hooks = traced_hooks(
        sharding_keys=True, tracer_provider=telemetry.tracing, meter_provider=telemetry.metering
    )
    run(hooks, context)
    (span,) = telemetry.spans(NAME)
    assert span.attributes["messaging.rocketmq.message.group"] == "secret"
    (point,) = telemetry.points("messaging.client.consumed.messages")
    assert "secret" not in point.attributes.values(), "it would make a series of each key"


def test_names_are_the_programs_without_the_namespace(telemetry, hooks):
    queue = replace(QUEUE, topic="shop%orders")
    first = replace(message(0, queue=queue), namespace="shop")
    run(hooks, ConsumeContext(queue, "shop%group"), messages=(first,))
    (span,) = telemetry.spans(NAME)
    assert span.attributes["messaging.consumer.group.name"] == "group"


def test_a_batch_is_linked_to_all_that_sent_it(telemetry, hooks, context):
    senders = []
    for _ in range(2):
        with telemetry.tracer.start_as_current_span("sender") as span:
            senders.append(span)
    carried = [
        {"traceparent": f"00-{s.context.trace_id:032x}-{s.context.span_id:016x}-01"}
        for s in senders
    ]
    messages = tuple(
        replace(message(offset), properties=properties)
        for offset, properties in enumerate([*carried, {}])
    )
    run(hooks, context, messages=messages)
    (span,) = telemetry.spans(NAME)
    assert len(span.links) == 2
    assert all(map(sent_by, span.links, senders))
    assert span.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in span.attributes
    (point,) = telemetry.points("messaging.client.consumed.messages")
    assert point.value == 3


@pytest.mark.parametrize(
    ("kind", "answer", "error"),
    [
        (ReturnType.SUCCESS, Ack(), None),
        (ReturnType.TIME_OUT, Ack(), None),
        (ReturnType.EXCEPTION, ValueError("of account 17"), "ValueError"),
        (ReturnType.RETURNNULL, None, "returnnull"),
        (ReturnType.FAILED, None, "failed"),
    ],
)
def test_what_makes_messages_come_again_is_an_error(kind, answer, error, telemetry, hooks, context):
    run(hooks, context, Consumed(kind, answer, 1.0))
    (span,) = telemetry.spans(NAME)
    assert span.attributes.get("error.type") == error
    assert span.status.is_ok is (error is None)
    assert "account 17" not in span.to_json(), "an exception may say anything"
    for metric in ("messaging.client.consumed.messages", "messaging.process.duration"):
        (point,) = telemetry.points(metric)
        assert dict(point.attributes) == {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": "orders",
            "messaging.consumer.group.name": "group",
            "orderly.outcome": kind.value.lower(),
        }


def test_the_histogram_counts_seconds(telemetry, hooks, context):
    run(hooks, context)
    run(hooks, context)
    (point,) = telemetry.points("messaging.process.duration")
    assert (point.count, point.sum) == (2, 0.5)
    assert point.explicit_bounds[0] == 0.005, "not the default ones, made for milliseconds"


def test_hooks_of_the_program_run_within_the_span(telemetry, context):
    seen = []
    mine = ConsumerHooks(
        before=lambda *_: seen.append(trace.get_current_span()),
        after=lambda *_: seen.append(trace.get_current_span()),
        assigned=print,
    )
    hooks = traced_hooks(mine, tracer_provider=telemetry.tracing, meter_provider=telemetry.metering)
    assert hooks.assigned is print
    within = run(hooks, context)
    assert seen == [within, within]


def test_a_hook_that_raises_does_not_keep_the_span_open(telemetry, context):
    def fails(*args):
        raise RuntimeError("a bug")

    hooks = traced_hooks(
        ConsumerHooks(before=fails, after=fails),
        tracer_provider=telemetry.tracing,
        meter_provider=telemetry.metering,
    )
    batch = (message(0),)
    with pytest.raises(RuntimeError):
        hooks.before(batch, context)
    with pytest.raises(RuntimeError):
        hooks.after(batch, context, SUCCESS)
    assert len(telemetry.spans(NAME)) == 1
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_call_whose_span_could_not_begin_leaves_the_last_ones_alone(
    telemetry, hooks, context, monkeypatch
):
    run(hooks, context)
    with monkeypatch.context() as broken:
        broken.setattr("orderly.telemetry.consuming.of_call", None)
        with pytest.raises(TypeError):
            hooks.before(BATCH, context)
    hooks.after(BATCH, context, SUCCESS)  # the consumer goes on: it only logs what a hook raises
    assert len(telemetry.spans(NAME)) == 1


def test_tasks_of_one_loop_do_not_share_a_span(telemetry, hooks):
    async def call(offset):
        context, batch = ConsumeContext(QUEUE, "group"), (message(offset),)
        for _ in range(3):
            hooks.before(batch, context)
            before = trace.get_current_span()
            await asyncio.sleep(0)
            assert trace.get_current_span() is before
            hooks.after(batch, context, SUCCESS)

    async def main():
        await asyncio.gather(*map(call, range(5)))

    asyncio.run(main())
    spans = telemetry.spans(NAME)
    assert len(spans) == 15
    assert all(span.parent is None for span in spans)
