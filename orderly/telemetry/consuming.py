"""Hooks of a consumer that trace and measure each call of its handler."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from dataclasses import replace

from opentelemetry import context as contexts
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)

from orderly.config.arguments import check_flag, check_given
from orderly.consumer.hooks import Consumed, ConsumerHooks
from orderly.consumer.statistics import ReturnType
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext
from orderly.telemetry.spans import ERROR, LIBRARY, OUTCOME, VERSION, link_to, of_call, of_group

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_ANSWERED = frozenset({ReturnType.SUCCESS, ReturnType.TIME_OUT})

_current: ContextVar[tuple[Span, Token[contexts.Context]] | None] = ContextVar(
    "orderly_call", default=None
)


def traced_hooks(
    hooks: ConsumerHooks | None = None,
    *,
    sharding_keys: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> ConsumerHooks:
    """Return hooks that run each handler call in its own span.

        OrderlyConsumer("shipping", handle, namesrv="localhost:9876", hooks=traced_hooks())

    The span "process <topic>" is current while the handler runs, on its thread or in its task, and
    is linked to the spans that sent the messages. A handler in a worker process runs outside of the
    span. A call after which messages come again has the status "error". `error.type` is the class
    of the exception, without its text, which could contain anything.

    Metrics: `messaging.client.consumed.messages`, a counter by outcome, and
    `messaging.process.duration`, a histogram of the handler's seconds.

    Args:
        hooks: further hooks, called within the span.
        sharding_keys: whether spans show the keys; they can be personal data.
        tracer_provider: of the spans; None: the global one.
        meter_provider: of the metrics; None: the global one.

    Raises:
        ConfigError: an argument of another kind.
    """
    check_given("hooks", hooks, ConsumerHooks, "a ConsumerHooks")
    check_flag("sharding_keys", sharding_keys)
    check_given("tracer_provider", tracer_provider, TracerProvider)
    check_given("meter_provider", meter_provider, MeterProvider)
    inner = hooks or ConsumerHooks()
    calls = _Calls(inner, sharding_keys, tracer_provider, meter_provider)
    return replace(inner, before=calls.before, after=calls.after)


class _Calls:
    """Begins and ends spans. Thread-safe: a call's span is in the context of its thread or task."""

    def __init__(
        self,
        inner: ConsumerHooks,
        sharding_keys: bool,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
    ) -> None:
        self._inner = inner
        self._sharding_keys = sharding_keys
        self._tracer = get_tracer(LIBRARY, VERSION, tracer_provider)
        meter = get_meter(LIBRARY, VERSION, meter_provider)
        self._messages = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages handed to the handler."
        )
        self._seconds = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of a call of the handler.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def before(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
        _current.set(None)  # or, if what follows raises, `after` would end the last call's span
        span = self._tracer.start_span(
            f"process {messages[0].topic}",
            kind=SpanKind.CONSUMER,
            links=[link for link in map(link_to, messages) if link is not None],
            attributes=of_call(messages, context, sharding_key=self._sharding_keys),
        )
        _current.set((span, contexts.attach(set_span_in_context(span))))
        if self._inner.before is not None:
            self._inner.before(messages, context)

    def after(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext, consumed: Consumed
    ) -> None:
        call = _current.get()
        try:
            if self._inner.after is not None:
                self._inner.after(messages, context, consumed)
        finally:
            if call is not None:
                span, token = call
                contexts.detach(token)
                _finish(span, consumed)
            at = of_group(messages[0], context) | {OUTCOME: consumed.kind.value.lower()}
            self._messages.add(len(messages), at)
            self._seconds.record(consumed.seconds, at)


def _finish(span: Span, consumed: Consumed) -> None:
    answer, outcome = consumed.answer, consumed.kind.value.lower()
    span.set_attribute(OUTCOME, outcome)
    if consumed.kind not in _ANSWERED:
        raised = isinstance(answer, BaseException)
        span.set_attribute(ERROR, type(answer).__qualname__ if raised else outcome)
        span.set_status(Status(StatusCode.ERROR))
    span.end()
