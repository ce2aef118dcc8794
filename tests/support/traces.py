"""OpenTelemetry's SDK with an exporter and a reader in memory."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Telemetry:
    """What was recorded.

    Attributes:
        tracing: the tracer provider.
        metering: the meter provider.
    """

    def __init__(self):
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracing = TracerProvider(shutdown_on_exit=False)
        self.tracing.add_span_processor(SimpleSpanProcessor(self._spans))
        self.metering = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer = self.tracing.get_tracer("test")

    def spans(self, name):
        """Those that ended, in the order in which they did."""
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def points(self, name):
        """Of one metric."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def sent_by(link, span):
    """Whether the link leads to that span."""
    context = link.context
    return (context.trace_id, context.span_id) == (span.context.trace_id, span.context.span_id)
