"""A producer whose messages carry the trace in which they were sent."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial

from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)

from orderly.client import Client
from orderly.config import ProducerConfig
from orderly.config.arguments import check_flag, check_given
from orderly.message import Message
from orderly.model import SendResult
from orderly.producer import OrderlyProducer
from orderly.producer.pending import check_message
from orderly.selectors.choice import Selector
from orderly.selectors.keyed import hash_mod
from orderly.telemetry.spans import (
    ERROR,
    LIBRARY,
    MESSAGE_ID,
    PARTITION,
    VERSION,
    of_sending,
    partition,
    with_context,
)


class TracedProducer(OrderlyProducer):
    """An OrderlyProducer with a span "send <topic>" for each message, from the call to the answer.

    The span's context travels in the message's properties `traceparent` and `tracestate`, unless
    the message already has one of them or has no room for them. Thread-safe.

        with TracedProducer(namesrv="localhost:9876") as producer:
            producer.send(Message("orders", b"created", sharding_key="order-1001"))

    Args:
        group, namesrv, config, client, selector: as of OrderlyProducer.
        sharding_keys: whether spans show the keys; they can be personal data.
        tracer_provider: None: the global one.

    Raises:
        ConfigError: as OrderlyProducer.
    """

    def __init__(
        self,
        group: str = "orderly-producer",
        *,
        namesrv: str = "",
        config: ProducerConfig | None = None,
        client: Client | None = None,
        selector: Selector = hash_mod,
        sharding_keys: bool = False,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        check_flag("sharding_keys", sharding_keys)
        check_given("tracer_provider", tracer_provider, TracerProvider)
        super().__init__(group, namesrv=namesrv, config=config, client=client, selector=selector)
        self._sharding_keys = sharding_keys
        self._tracer = get_tracer(LIBRARY, VERSION, tracer_provider)

    def submit(
        self,
        message: Message,
        *,
        selector: Selector | None = None,
        arg: object = None,
        timeout: float | None = None,
    ) -> Future[SendResult]:
        """As OrderlyProducer; the span ends with the future."""
        with self._sending(message) as (span, carrying):
            future = super().submit(carrying, selector=selector, arg=arg, timeout=timeout)
        future.add_done_callback(partial(_done, span))
        return future

    def send(
        self,
        message: Message,
        *,
        selector: Selector | None = None,
        arg: object = None,
        timeout: float | None = None,
    ) -> SendResult:
        """As OrderlyProducer."""
        with self._sending(message) as (span, carrying):
            result = super().send(carrying, selector=selector, arg=arg, timeout=timeout)
        _stored(span, result)
        return result

    async def asend(
        self,
        message: Message,
        *,
        selector: Selector | None = None,
        arg: object = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the message's time, not the coroutine's
    ) -> SendResult:
        """As OrderlyProducer."""
        with self._sending(message) as (span, carrying):
            result = await super().asend(carrying, selector=selector, arg=arg, timeout=timeout)
        _stored(span, result)
        return result

    def send_oneway(self, message: Message) -> None:
        """As OrderlyProducer; the span ends when the message is on its way."""
        with self._sending(message) as (span, carrying):
            super().send_oneway(carrying)
        span.end()

    @contextmanager
    def _sending(self, message: Message) -> Iterator[tuple[Span, Message]]:
        """A span, and the message that carries it; an error ends the span."""
        span = self._start(message)
        try:
            check_message(message, self.config.max_message_size)  # before its fields are read
            yield span, with_context(message, set_span_in_context(span))
        except BaseException as error:
            _failed(span, error)
            raise

    def _start(self, message: Message) -> Span:
        if not isinstance(message, Message):
            return INVALID_SPAN
        try:
            attributes = of_sending(message, sharding_key=self._sharding_keys)
        except TypeError:  # a body without a length; the span shows how that ends
            attributes = {}
        return self._tracer.start_span(
            f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )


def _done(span: Span, future: Future[SendResult]) -> None:
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        _stored(span, future.result())
    else:
        _failed(span, error)


def _stored(span: Span, result: SendResult) -> None:
    span.set_attribute(MESSAGE_ID, result.message_id)
    span.set_attribute(PARTITION, partition(result.queue))
    span.end()


def _failed(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))
    span.end()
